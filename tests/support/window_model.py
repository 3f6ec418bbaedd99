"""A small model with random weights and a sliding window: what it says is noise, but the same noise every time."""
import gguf
import numpy

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD_WIDTH, HIDDEN = 8, 256, 4, 2, 64, 512


def copy_tokenizer(into, path):
    """The vocabulary and the chat template of another model."""
    fields = gguf.GGUFReader(path).fields
    for name, field in fields.items():
        if not name.startswith("tokenizer."):
            continue
        kind, *of = field.types
        into.add_key_value(name, field.contents(), kind, of[-1] if of else None)
    return len(fields["tokenizer.ggml.tokens"].data)


def write(path, tokenizer_of, window, context):
    """A model of the kind "gemma2", every other layer of which sees the last `window` tokens only."""
    out = gguf.GGUFWriter(path, "gemma2")
    vocabulary = copy_tokenizer(out, tokenizer_of)
    out.add_context_length(context)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(HIDDEN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_key_length(HEAD_WIDTH)
    out.add_value_length(HEAD_WIDTH)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_attn_logit_softcapping(50.0)
    out.add_final_logit_softcapping(30.0)
    out.add_sliding_window(window)
    random = numpy.random.default_rng(39)

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns), dtype=numpy.float32) / numpy.sqrt(columns)
        out.add_tensor(f"{name}.weight", values.astype(numpy.float16))

    def norm(name):
        out.add_tensor(f"{name}.weight", numpy.ones(WIDTH, dtype=numpy.float32))

    matrix("token_embd", vocabulary, WIDTH)
    norm("output_norm")
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            norm(f"{block}.{name}")
        matrix(f"{block}.attn_q", HEADS * HEAD_WIDTH, WIDTH)
        matrix(f"{block}.attn_k", KV_HEADS * HEAD_WIDTH, WIDTH)
        matrix(f"{block}.attn_v", KV_HEADS * HEAD_WIDTH, WIDTH)
        matrix(f"{block}.attn_output", WIDTH, HEADS * HEAD_WIDTH)
        matrix(f"{block}.ffn_gate", HIDDEN, WIDTH)
        matrix(f"{block}.ffn_up", HIDDEN, WIDTH)
        matrix(f"{block}.ffn_down", WIDTH, HIDDEN)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
