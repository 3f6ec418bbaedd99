"""Passes frames between two devices, later and not all of them.

    python relay.py BRIDGE_SIDE MEMBER_SIDE SEED DELAY_MS_IN LOSS_IN DELAY_MS_OUT LOSS_OUT [PEER BYTES_PER_S]

Says "ready" once it passes frames, until it is killed. Frames to and from the address PEER pass at that rate. After SIGTERM it
takes no more from the member's side, and ends when it has passed on what it has.
"""
import heapq
import random
import select
import signal
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23  # linux/socket.h, linux/if_packet.h
FRAME_BYTES = 1 << 16
BUFFER_BYTES = 8 << 20
IDLE_S = 0.1
QUEUE_S = 1.0  # that a slow way makes a frame wait at most; the next one is lost
IPV4 = b"\x08\x00"


def open_device(name):
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETH_P_ALL))
    device.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    device.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    device.bind((name, 0))
    return device


class Way:
    """One direction. The delay is the same for each frame, so none overtakes another, but for those of the slow peer."""

    def __init__(self, source, sink, dice, delay_ms, loss, slow):
        self.source, self.sink, self.dice, self.delay_s, self.loss = source, sink, dice, delay_ms / 1000, loss
        self.peer, self.bytes_per_s, self.busy_until = slow[0], slow[1], 0.0

    def receive(self, waiting):
        try:
            frame = self.source.recv(FRAME_BYTES)
        except OSError:  # the device went down
            return
        due = time.monotonic() + self.delay_s
        if self.peer and frame[12:14] == IPV4 and self.peer in (frame[26:30], frame[30:34]):
            if self.busy_until > due + QUEUE_S:
                return
            due = self.busy_until = max(self.busy_until, due) + len(frame) / self.bytes_per_s
        if self.dice.random() >= self.loss:
            heapq.heappush(waiting, (due, next(ORDER), self, frame))

    def send(self, frame):
        try:
            self.sink.send(frame)
        except OSError:  # its queue is full, or the device is down: lost, as on a cable
            pass


ORDER = iter(range(sys.maxsize))


def main():
    bridge, member = open_device(sys.argv[1]), open_device(sys.argv[2])
    seed, *figures = map(float, sys.argv[3:8])
    slow = (socket.inet_aton(sys.argv[8]), float(sys.argv[9])) if len(sys.argv) > 8 else (None, 0)
    dice = random.Random(seed)
    out_of = Way(member, bridge, dice, *figures[2:], slow)
    ways = {bridge: Way(bridge, member, dice, *figures[:2], slow), member: out_of}
    signal.signal(signal.SIGTERM, lambda *_: ways.pop(member, None))
    print("ready", flush=True)
    waiting = []
    while member in ways or any(way is out_of for _, _, way, _ in waiting):
        wait_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else IDLE_S
        for source in select.select(list(ways), [], [], wait_s)[0]:
            if source in ways:
                ways[source].receive(waiting)
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, way, frame = heapq.heappop(waiting)
            way.send(frame)


if __name__ == "__main__":
    main()
