"""Passes frames between two devices, later and not all of them.

    python relay.py BRIDGE_SIDE MEMBER_SIDE SEED DELAY_MS_IN LOSS_IN DELAY_MS_OUT LOSS_OUT

Says "ready" once it passes frames, until it is killed.
"""
import heapq
import random
import select
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23  # linux/socket.h, linux/if_packet.h
FRAME_BYTES = 1 << 16
BUFFER_BYTES = 8 << 20


def open_device(name):
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETH_P_ALL))
    device.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    device.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    device.bind((name, 0))
    return device


class Way:
    """One direction. The delay is the same for each frame, so none overtakes another."""

    def __init__(self, source, sink, dice, delay_ms, loss):
        self.source, self.sink, self.dice, self.delay_s, self.loss = source, sink, dice, delay_ms / 1000, loss

    def receive(self, waiting):
        try:
            frame = self.source.recv(FRAME_BYTES)
        except OSError:  # the device went down
            return
        if self.dice.random() >= self.loss:
            heapq.heappush(waiting, (time.monotonic() + self.delay_s, next(ORDER), self, frame))

    def send(self, frame):
        try:
            self.sink.send(frame)
        except OSError:  # its queue is full, or the device is down: lost, as on a cable
            pass


ORDER = iter(range(sys.maxsize))


def main():
    bridge, member = open_device(sys.argv[1]), open_device(sys.argv[2])
    seed, *figures = map(float, sys.argv[3:])
    dice = random.Random(seed)
    ways = {bridge: Way(bridge, member, dice, *figures[:2]), member: Way(member, bridge, dice, *figures[2:])}
    print("ready", flush=True)
    waiting = []
    while True:
        wait_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for source in select.select(list(ways), [], [], wait_s)[0]:
            ways[source].receive(waiting)
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, way, frame = heapq.heappop(waiting)
            way.send(frame)


if __name__ == "__main__":
    main()
