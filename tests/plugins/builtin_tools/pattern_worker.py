"""The script of a child that takes many patterns through the product's own JavaScript: engine, source, orders."""

import json
import sys

order = json.load(sys.stdin)
sys.path.append(order["engine"])
import _quickjs  # noqa: E402

context = _quickjs.Context()
with open(order["source"], encoding="utf-8") as file:
    function = context.eval(file.read())
answers = []
for one in order["orders"]:
    try:
        answers.append(json.loads(function(context.parse_json(json.dumps(one)))))
    except _quickjs.JSException as error:
        answers.append({"failed": str(error)})
sys.stdout.write(json.dumps(answers))
