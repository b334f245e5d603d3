// What the mock's model says.
const FENCE = "```";

const CODE = `Here is a **streaming client** in Python:

${FENCE}python
import json
import urllib.request

def stream(url: str, token: str, model: str, prompt: str) -> None:
    """Prints the answer as it comes; a line long enough to need its own sideways scroll on any phone."""
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": prompt}]}).encode()
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        for line in response:
            if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                chunk = json.loads(line[6:])
                print(chunk["choices"][0]["delta"].get("content", ""), end="", flush=True)
${Array.from({ length: 24 }, (_, i) => `    # step ${i + 1}: nothing to see here`).join("\n")}
${FENCE}

1. It opens the request.
2. It reads \`data:\` lines until \`[DONE]\`.

See [the docs](https://example.org/docs) for more.
`;

const TABLE = `## Sizes

| Model | Size | tok/s |
|:--|--:|--:|
| SmolLM2 135M | 94 MiB | 120 |
| Qwen3 8B | 4.68 GiB | 34.2 |
| A rather long name of a model that makes the table wide, with more words still | 37.3 GiB | 4.10 |

> Numbers are made up.

- [x] measured
- [ ] believed
`;

const HOSTILE = `<img src=x onerror="window.pwned=1"> <svg onload="window.pwned=1"></svg>

<script>window.pwned=1</script>

<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>

[click](javascript:window.pwned=1) [data](data:text/html,<script>parent.pwned=1</script>) ![pixel](https://example.org/pixel.png)

<style>body{display:none}</style> <a href="javascript:window.pwned=1">raw</a>
`;

const SHORT = "Quite well, thank you. I run **on this machine**, so nothing you write leaves it. Ask me something harder: the speed of each answer stands below it.";
const LONG = Array.from({ length: 30 }, (_, i) => `Paragraph ${i + 1}. ${SHORT}`).join("\n\n");

const LIST = Array.from({ length: 300 }, (_, i) => `- item ${i}: **bold**, \`code\` and [a link](https://example.org/${i})`).join("\n");

/** The answer in pieces of a few characters. */
export function answerFor(question) {
  const text = /hostile/.test(question) ? HOSTILE : /code/.test(question) ? CODE : /table/.test(question) ? TABLE : /long/.test(question) ? LONG : /list/.test(question) ? LIST : SHORT;
  return text.match(/[^]{1,6}/g);
}
