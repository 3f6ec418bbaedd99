"""Answers as a client of the official library sees them."""


class Answer:
    """All that a client saw of one answer."""

    def __init__(self):
        self.text, self.finish, self.usage, self.end = "", None, None, None
        self.positions, self.lengths, self.nodes, self.logprobs = [], [], [], []  # the first three by piece of text

    def take(self, chunk):
        """One chunk of a stream, or a whole body."""
        before = len(self.text)
        for choice in chunk.choices:
            piece = getattr(choice, "delta", None) or getattr(choice, "message", None)
            self.text += (piece.content if piece else choice.text) or ""
            self.finish = choice.finish_reason or self.finish
            self._take_logprobs(choice)
        if chunk.usage:
            self.usage = (chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        trace = (chunk.model_extra or {}).get("baton") or {}
        if "position" in trace:
            self.positions.append(trace["position"])
            self.lengths.append(len(self.text) - before)
            self.nodes.append(trace["node"])
        if "failovers" in trace:
            self.end = trace

    def _take_logprobs(self, choice):
        for token in getattr(choice.logprobs, "content", None) or ():
            self.logprobs.append((token.token, token.logprob, [(top.token, top.logprob) for top in token.top_logprobs]))

    @property
    def seen(self):
        """What must not depend on faults."""
        return self.text, self.finish, self.usage, self.logprobs


def ask(client, messages, session=None, seen=None, stream=True, ignore_eos=True, **how):
    """One chat answer; `seen(answer)` is called after each chunk."""
    extra = {"baton": {"trace": True}, "ignore_eos": ignore_eos}
    if session:
        extra["session_id"] = session
    how = {"max_tokens": 60, "temperature": 0, "seed": 5, **how}
    answer = Answer()
    if not stream:
        answer.take(client.chat.completions.create(model="toy", messages=messages, extra_body=extra, **how))
        return answer
    with client.chat.completions.create(model="toy", messages=messages, stream=True,
                                        stream_options={"include_usage": True}, extra_body=extra, **how) as chunks:
        for chunk in chunks:
            answer.take(chunk)
            if seen:
                seen(answer)
    return answer
