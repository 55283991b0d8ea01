"""Public kinds of secrets, each with a made-up value, the texts around them, and values that are no secrets."""

import base64
import json
import random
import re
import string

DIGITS, LOWER, UPPER = string.digits, string.ascii_lowercase, string.ascii_uppercase
LETTERS = string.ascii_letters + DIGITS
HEX = "0123456789abcdef"
URL_SAFE = LETTERS + "-_"


def drawn(length: int, letters: str = LETTERS, seed: int = 0) -> str:
    """Characters that are no real secret, and the same in each run."""
    return "".join(random.Random(f"{length}{letters}{seed}").choices(letters, k=length))


def _uuid() -> str:
    return "-".join(drawn(length, HEX) for length in (8, 4, 4, 4, 12))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _pem(kind: str) -> str:
    return f"-----BEGIN {kind}-----\n{drawn(64)}\n{drawn(64, seed=1)}\n-----END {kind}-----"


PRIVATE_KEY = _pem("RSA PRIVATE KEY")
_ACCOUNT = {"type": "service_account", "private_key_id": drawn(40, HEX), "private_key": PRIVATE_KEY}
PHRASE = "hunter2!Staple"

BY_PREFIX = {
    "GitHub": "ghp_" + drawn(36),
    "GitHub, OAuth": "gho_" + drawn(36),
    "GitHub, of an app": "ghs_" + drawn(36),
    "GitHub, fine-grained": f"github_pat_{drawn(22)}_{drawn(59)}",
    "GitLab": "glpat-" + drawn(20, URL_SAFE),
    "GitLab, of a runner": "glrt-" + drawn(20, URL_SAFE),
    "Hugging Face": "hf_" + drawn(34, string.ascii_letters),
    "Slack": f"xoxb-{drawn(12, DIGITS)}-{drawn(13, DIGITS)}-{drawn(24)}",
    "Slack, of an app": f"xapp-1-A{drawn(10, UPPER)}-{drawn(13, DIGITS)}-{drawn(64, HEX)}",
    "OpenAI": f"sk-proj-{drawn(48)}",
    "OpenAI, older": "sk-" + drawn(48),
    "Anthropic": "sk-ant-api03-" + drawn(93, URL_SAFE),
    "NVIDIA": "nvapi-" + drawn(64, URL_SAFE),
    "Google": "AIza" + drawn(35, URL_SAFE),
    "Google, access": "ya29." + drawn(120, URL_SAFE),
    "Google, of a client": "GOCSPX-" + drawn(28, URL_SAFE),
    "Amazon": "AKIA" + drawn(16, UPPER + DIGITS),
    "Amazon, temporary": "ASIA" + drawn(16, UPPER),
    "npm": "npm_" + drawn(36),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + drawn(120, URL_SAFE),
    "Stripe": "sk_live_" + drawn(24),
    "Stripe, restricted": "rk_live_" + drawn(24),
    "Docker": "dckr_pat_" + drawn(27),
    "Vault": "hvs." + drawn(24),
    "SendGrid": f"SG.{drawn(22)}.{drawn(43)}",
    "Databricks": "dapi" + drawn(32, HEX),
    "DigitalOcean": "dop_v1_" + drawn(64, HEX),
    "Shopify": "shpat_" + drawn(32, HEX),
    "Square": "sq0atp-" + drawn(22, URL_SAFE),
    "Square, production": "EAAA" + drawn(60),
    "Facebook": "EAA" + drawn(160),
    "Linear": "lin_api_" + drawn(40),
    "Notion": "ntn_" + drawn(46),
    "Notion, older": "secret_" + drawn(43),
    "Postman": f"PMAK-{drawn(24, HEX)}-{drawn(34, HEX)}",
    "Doppler": "dp.pt." + drawn(43),
    "Vercel": "vcp_" + drawn(56),
    "Netlify": "nfp_" + drawn(36),
    "New Relic": "NRAK-" + drawn(27, UPPER + DIGITS),
    "Grafana": f"glsa_{drawn(32)}_{drawn(8, HEX)}",
    "Grafana Cloud": "glc_" + _base64(f'{{"o":"{drawn(6)}","n":"x","k":"{drawn(24)}"}}'),
    "Artifactory": "AKCp" + drawn(69),
    "Artifactory, reference": "cmVmdGtu" + drawn(56),
    "Atlassian": "ATATT3xFfGF0" + drawn(180, URL_SAFE),
    "Dropbox": "sl." + drawn(130, URL_SAFE),
    "Fly.io": "fm2_" + drawn(100, LETTERS + "+/"),
    "Replicate": "r8_" + drawn(37),
    "Supabase": "sbp_" + drawn(40, HEX),
    "PlanetScale": "pscale_tkn_" + drawn(43, URL_SAFE),
    "Tailscale": f"tskey-auth-{drawn(12)}CNTRL-{drawn(32)}",
    "Mapbox": f"sk.ey{drawn(60)}.{drawn(22)}",
    "Okta": "SSWS 00" + drawn(40, URL_SAFE),
    "Age": "AGE-SECRET-KEY-1" + drawn(58, UPPER + DIGITS),
    "Groq": "gsk_" + drawn(52),
    "Rubygems": "rubygems_" + drawn(48, HEX),
    "JSON Web Token": f"eyJ{drawn(30)}.eyJ{drawn(60)}.{drawn(43)}",
    "Kubernetes, of an account": f"eyJ{drawn(80)}.eyJ{drawn(600, seed=1)}.{drawn(342, URL_SAFE)}",
    "private key": PRIVATE_KEY,
    "private key, cut off": PRIVATE_KEY[:80],
    "private key, in one line": PRIVATE_KEY.replace("\n", "\\n"),
    "private key, escaped twice": PRIVATE_KEY.replace("\n", "\\\\n"),
    "private key, with blanks": PRIVATE_KEY.replace("\n", " "),
    "SSH": _pem("OPENSSH PRIVATE KEY"),
    "GPG": _pem("PGP PRIVATE KEY BLOCK"),
}
"""What its form alone tells, wherever it stands."""

BY_SHAPE = {
    "Vault, older": "s." + drawn(24),
    "Mailgun": "key-" + drawn(32, HEX),
    "Twilio": "SK" + drawn(32, HEX),
    "Telegram": f"{drawn(9, '123456789')}:AA{drawn(33, URL_SAFE)}",
    "Discord": f"{drawn(24)}.{drawn(6)}.{drawn(27, URL_SAFE)}",
    "Terraform": f"{drawn(14)}.atlasv1.{drawn(67)}",
    "private key, without its beginning": PRIVATE_KEY[40:],
    "PuTTY": f"PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 2\n{drawn(64)}\n{drawn(64, seed=1)}\n",
    "Slack, a webhook": "https://hooks.slack.com/services/T00000000/B00000000/" + drawn(24),
    "Amazon, secret": drawn(40, LETTERS + "+/"),
    "Weights & Biases": drawn(40, HEX),
    "Datadog": drawn(32, HEX),
    "Cloudflare": drawn(40, URL_SAFE),
    "Azure, of a client": f"{drawn(3)}8Q~{drawn(34)}",
    "Azure, of an account": drawn(86, LETTERS + "+/") + "==",
    "bootstrap": f"{drawn(6, LOWER + DIGITS)}.{drawn(16, LOWER + DIGITS)}",
    "Terraform, without a word": drawn(90),
    "base64 of credentials": _base64(json.dumps(_ACCOUNT)),
    "base64 of a password": _base64(f"the administrator:{PHRASE}"),
    "hexadecimal": drawn(64, HEX),
}
"""Random characters without a sign of their own that is long enough."""

BY_PLACE = {
    "user of a URL": ("https://", f"alice:{drawn(12)}", "@host/path"),
    "token of a URL": ("git+https://", drawn(20), "@host.example/x"),
    "PostgreSQL": ("postgresql://", f"app:{PHRASE}", "@db:5432/app"),
    "MySQL, an @ in the password": ("mysql://", "app:hunter2@Staple", "@db/app"),
    "MySQL, of Go": ("", "app:hunter2Staple", "@tcp(db:3306)/app"),
    "MongoDB, a slash in the password": ("mongodb+srv://", "app:hunter2/Staple", "@db.example/app"),
    "Redis": ("redis://:", PHRASE, "@cache:6379/0"),
    "Sentry": ("https://", drawn(32, HEX), "@o1.ingest.sentry.io/2"),
    "Azure, a connection": (
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=",
        drawn(40, LETTERS + "+/") + "==",
        ";EndpointSuffix=core.windows.net",
    ),
    "Azure, a signature": ("https://x.blob.core.windows.net/c?sv=2024&sp=r&sig=", "hunter2%2BStaple%3D", "&se=1"),
    "SQL Server": ("Server=db;Uid=app;Pwd=", PHRASE, ";Database=app"),
    "a query": ("https://example.com/?page=1&access_token=", PHRASE, "&b=c"),
    "pass=": ("pass=", "hunter2", ""),
    "pwd:": ("pwd: ", "hunter2", ""),
    "a password in capitals": ("DB_PASSWORD=", "hunter2", ""),
    "PGPASSWORD": ("PGPASSWORD=", "hunter2", " psql"),
    "a comma in a password": ("password=", "hunter2,Staple", ""),
    "Heroku": ("HEROKU_API_KEY=", _uuid(), ""),
    "Weights & Biases, short": ("WANDB_API_KEY=", "hunter2", ""),
    "Datadog, of an application": ("DD_APP_KEY: ", "hunter2", ""),
    "a license": ("license-key=", "hunter2", ""),
    "a passphrase in quotes": ("PASSPHRASE='", "correct horse battery", "'"),
    "a quote without its end": ("SECRET='", "correct horse battery", ""),
    "a word after token": ("token ", "hunter2", ""),
    "a bearer": ("Authorization: ", f"Bearer {drawn(30)}", ""),
    "Basic": ("Authorization: Basic ", _base64("a:hunter2"), ""),
    "Digest": ("Authorization: ", 'Digest username="alice", response="hunter2"', ""),
    "a signed request": ("authorization: ", "AWS4-HMAC-SHA256 Credential=hunter2, Signature=Staple", ""),
    "a cookie": ("Cookie: ", "id=hunter2; second=Staple", ""),
    "a cookie of an answer": ("Set-Cookie: ", "sid=hunter2; Path=/x", ""),
    "an option": ("--api-key=", drawn(20), ""),
    "an option and a word": ("--password ", PHRASE, ""),
    "an option in a list": ('["--db-password", "', PHRASE, '"]'),
    "a user of curl": ("curl -u ", f"alice:{PHRASE}", " https://example.com"),
    "docker login": ("docker login -u alice -p ", PHRASE, " registry.example"),
    "sshpass": ("sshpass -p ", PHRASE, " ssh host"),
    "JSON": ('{"accessKey": "', "hunter2 staple", '"}'),
    "a list in JSON": ('{"passwords": ["', "hunter2 staple", '"]}'),
    "JSON in JSON": ('"{\\"password\\": \\"', "hunter2 staple", '\\"}"'),
    "JSON in JSON in JSON": ('"{\\\\\\"password\\\\\\": \\\\\\"', "hunter2 staple", '\\\\\\"}"'),
    "a quote in JSON in JSON": ('"{\\"password\\": \\"', 'hunter2 \\\\\\"staple', '\\"}"'),
    "a variable": ('{"name": "HF_TOKEN", "value": "', "hunter2", '"}'),
    "a variable in JSON": ('"[{\\"name\\": \\"HF_TOKEN\\", \\"value\\": \\"', "hunter2", '\\"}]"'),
    "Docker, a file": ('{"auths": {"docker.io": {"auth": "', _base64("alice:hunter2"), '"}}}'),
    "npm, a file": ("//registry.example/:_auth=", _base64("a:hunter2"), ""),
    "YAML, of several words": ("a: b\npassword: ", "correct horse battery", "\nnext: c"),
    "YAML, a block": ("password: |\n  ", "hunter2", "\nnext: c"),
    "XML": ("<password>", "hunter2 staple", "</password>"),
    "netrc": ("machine example.com login alice password ", "hunter2", ""),
    "an arrow": ("'secret' => '", "hunter2 staple", "'"),
    "an option of Redis": ("--requirepass ", "hunter2", ""),
    "a variable and a word": ("ENV AWS_SECRET_ACCESS_KEY ", "hunter2", ""),
    "a short option in a list": ('["-p", "', "hunter2", '"]'),
    "words": ("API key: ", "hunter2", ""),
    "a session": ("session_id=", "hunter2", ""),
    "JSON in a URL": ("%7B%22password%22%3A%22", "hunter2", "%22%7D"),
    "JSON with its quotes as numbers": ("\\u0022password\\u0022: \\u0022", "hunter2", "\\u0022"),
    "JSON in HTML": ("{&quot;password&quot;: &quot;", "hunter2", "&quot;}"),
    "encoded": ("client_secret%3D", "hunter2", ""),
}
"""What is before it tells, whatever it is: the text before, the secret, the text after."""

KINDS = {kind: ("", secret, "") for kind, secret in BY_PREFIX.items()} | BY_PLACE
"""The kinds that are hidden in every text that is kept: the text before, the secret, the text after."""
EVERY_KIND = KINDS | {kind: ("", secret, "") for kind, secret in BY_SHAPE.items()}
"""Those too that are hidden where no other program compares the text with another one."""

CONTEXTS = {
    "alone": "{}",
    "an argument": "python train.py {} --steps 3",
    "an option": "--value={}",
    "a path of a URL": "https://example.com/a/{}",
    "a query": "https://example.com/a?b=c&d={}",
    "quotes": 'said "{}"',
    "JSON": '{{"note": "{}"}}',
    "JSON in JSON": '"{{\\"note\\": \\"{}\\"}}"',
    "a traceback": 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no such thing: {}\n',
    "a line of a log": "2026-11-23T03:29:56Z node-1 train[12]: refused ({}), rank 3",
}
"""The texts that a secret may stand in."""


def words(secret: str) -> list[str]:
    """The parts of a secret that must not stay."""
    found = re.findall(r"hunter2|[Ss]taple|horse|battery|[A-Za-z0-9]{12,}", secret)
    return found or re.findall(r"[A-Za-z0-9]{6,}", secret)


HARMLESS = (
    "GPU-8d5b3c1e-2f60-4a7b-9c3d-0123456789ab,NVIDIA,97871,100:;",
    "MIG-8d5b3c1e-2f60-4a7b-9c3d-0123456789ab",
    "MIG-GPU-8d5b3c1e-2f60-4a7b-9c3d-0123456789ab/1/0",
    "8d5b3c1e-2f60-4a7b-9c3d-0123456789ab",
    "d3b07384-d9a0-4e3c-8f6e-0123456789ab.32766",
    "registry.corp.example:5000/ml/train@sha256:" + drawn(64, HEX),
    "sha256:" + drawn(64, HEX),
    "repo/name:v1.2.3@sha256:" + drawn(64, HEX),
    "12345678901234567890123",
    "00000000:1B:00.0 0000:1b:00.0",
    "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0",
    "/usr/local/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so",
    "/lib/x86_64-linux-gnu/libnvidia-ml.so.570.133.20",
    "cpython-312-x86_64-linux-gnu.so",
    "train-7d9f8b6c5d-x2k4q",
    "vllm-decode-6f7b5d4c9f-zl8wp.team-a.svc.cluster.local",
    "gke-h100-80gb-a3-pool-7f3c2d1e-x9k2",
    "ip-10-0-12-34.eu-central-1.compute.internal",
    "i-0123456789abcdef0",
    "aks-nodepool1-12345678-vmss00000a",
    "NVIDIA-H100-80GB-HBM3 NVIDIA-A100-SXM4-80GB-MIG-1g.5gb",
    "1.30.2-gke.1587003 v1.31.4+k3s1 5.15.0-105-generic",
    "500m 16Gi 137438953472",
    "NCCL_NVLS_ENABLE NCCL_P2P_NET_CHUNKSIZE=524288",
    "NCCL_SOCKET_IFNAME=^docker0,lo NCCL_IB_HCA=mlx5_0:1,mlx5_1:1",
    "NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7",
    "comm 0x55cd1a0bf930 rank 1 busId 2b000 commId 0x6f3d4c5b2a190817 - Init COMPLETE",
    "0x506b4b0300c2a1b2",
    "requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution",
    "node.kubernetes.io/unreachable:NoExecute op=Exists for 300s",
    "leaderworkerset.sigs.k8s.io/group-key",
    "2026-11-23T03:29:56.123456Z",
    "https://example.com/a?b=c",
    "https://host:8443/path@v1",
    "ImagePullBackOff CreateContainerConfigError",
    "0/3 nodes are available: 1 node(s) had untolerated taint {key: value}. preemption: 0/3 nodes",
    "task-force hf_transfer npm_config sk-1 sk-learn",
    '{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"key": "hf"}}}',
    '{"serviceAccountToken": {"path": "token"}, "automountServiceAccountToken": true}',
    "compass north bypass authority",
    "aW5uZXIgZGF0YQ eyJ",
    'topologyKey: "kubernetes.io/hostname", {"key": "nvidia.com/gpu.product"}',
    "a job with the Secret gpu-topology-webhook-tls",
    "tls: failed to verify certificate: x509: certificate signed by unknown authority",
    "/var/lib/kubelet/pods/8d5b3c1e-2f60-4a7b-9c3d-0123456789ab/volumes/kubernetes.io~projected/kube-api-access-x2k4q",
    "sk-learn-contrib-extra-of-2024",
    'secret: "", token: null, TOKENIZERS_PARALLELISM: "false"',
    "mkdir -p /data ssh -p 2222 host",
)
"""What must stay as it is."""
