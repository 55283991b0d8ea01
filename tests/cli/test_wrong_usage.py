"""Options that cannot be, or do not go together: exit code 2, nothing on standard output, and what was expected."""

import shlex

import pytest

from tests.cli.command import gpu_topology

STATE = "--state examples/state"
DGX1 = f"{STATE} --node dgx1-v100"
CLAIM = f"claim {STATE} --gpus 4 --require-nvlink"
PLAN = "topology plan --gpus 2"
BIND = "bind --kubeconfig x"

WRONG = [
    ("no-such-command", "No such command"),
    ("serve --port many", "--port"),
    ("analyze -f missing.yaml", "missing.yaml: cannot be read"),
    ("analyze --state missing", "expected a state directory"),
    ("analyze -f x -n a -A", "either a namespace or all"),
    ("analyze --state x --kubeconfig y", "either a state directory or a cluster"),
    ("analyze --kubeconfig missing", "missing: cannot be read"),
    ("analyze -f x --fail-on panic", "panic"),
    ("analyze -f x --hami-version next", "--hami-version: expected a version such as"),
    ("analyze -f x --hami-version 2.4", "--hami-version: expected 2.5 or later"),
    (f"{BIND}", "expected either POD or --file"),
    (f"{BIND} train -f -", "expected either POD or --file"),
    (f"{BIND} train --state .", "a pod of the cluster needs none"),
    (f"claim {STATE} --gpus 1 --require-nvlink", "--gpus: expected 2 to 32"),
    (f"claim {STATE} --gpus 33 --require-nvlink", "--gpus: expected 2 to 32"),
    (f"claim {STATE} --gpus 4", "give it or --min-bandwidth"),
    (f"claim {STATE} --gpus 4 --min-bandwidth nan", "expected GB/s"),
    (f"{CLAIM} --name Four", "expected a name of Kubernetes"),
    (f"{CLAIM} --namespace a.b", "expected a name of Kubernetes"),
    (f"{CLAIM} --device-class 'a\nb'", "expected a name"),
    (f"{CLAIM} --node-pool a=b", "only in a cluster"),
    (f"{CLAIM} --kubernetes-version new", "a version"),
    (f"{CLAIM} -f x", "either --file or --state"),
    (f"{CLAIM} --kubeconfig x", "either files or a cluster"),
    (f"defrag {STATE} --apply", "files are not changed: it needs a cluster"),
    (f"defrag {STATE} --kubeconfig x", "give either a state directory or a cluster"),
    ("explain", "expected POD or --file"),
    ("explain Train", 'expected POD, NAMESPACE/POD or KIND/NAME, found "Train"'),
    ("explain team-a/../x", 'expected POD, NAMESPACE/POD or KIND/NAME, found "team-a/../x"'),
    ("explain team-a/train -n team-b", "with --namespace a kind stands before"),
    (f"explain deploy/train {STATE}", "only in a cluster"),
    (f"explain a/b {STATE} --kubeconfig x", "give either files or a cluster"),
    ("explain -f - --topology -", "standard input can be read once"),
    ("explain -f - -f -", "standard input can be read once"),
    ("explain -f - --nccl-log -", "standard input can be read once"),
    (f"explain a/b {STATE} --hami-version banana", "expected a version such as"),
    ("explain -f - --hami-version 0.1", '--hami-version: expected 2.5 or later, found "0.1"'),
    ("inject", "--file"),
    ("inject -f - -o xml", "Invalid value for '--output' / '-o': 'xml' is not one of 'yaml', 'patch', "),
    ("inject -f - --hami-version new", 'expected a version such as "2.10.0", found "new"'),
    ("inject -f - --kubernetes-version 1.2", '--kubernetes-version: expected 1.28 or later, found "1.2"'),
    (f"namespace Team --opt-in {STATE}", "expected the name of a namespace, such as team-a"),
    (f"namespace a --set profile=exclusive --observe {STATE}", "profile has two values: give one"),
    (f"namespace a --set min-bandwidth=fast {STATE}", "min-bandwidth: expected a number of GB/s"),
    (f"namespace a --set min-bandwidth {STATE}", "expected KEY=VALUE, found 'min-bandwidth'"),
    (f"namespace a --set place=off --unset place {STATE}", "place is to be set and removed"),
    (f"namespace a --opt-in --undo {STATE}", "it goes with no change"),
    (f"namespace a --opt-in --apply {STATE}", "files are not changed: it needs a cluster"),
    ("namespace a --apply --kubeconfig nowhere", "give a change, or --undo"),
    (f"page {STATE}", "files do not change: give -o html"),
    ("page -A -n team-a", "give either a namespace or all of them"),
    (f"page -o html {STATE} --context x", "give either files or a cluster"),
    ("page --port 70000", "--port"),
    ("status -f x -A -n x", "Usage"),
    ("status -f x --watch", "Usage"),
    ("status --state x --kubeconfig y", "Usage"),
    ("status --watch --wide --kubeconfig x", "it draws within the terminal"),
    (f"topology show {DGX1} --gpus 0,3,00", "expected each index once, found 0,3,00"),
    ("topology show --gpus zero", "--gpus"),
    ("topology show -f a --state b", "--state"),
    ("topology show -o png", "'png' is not one of"),
    ("topology show -f - -o json --gpus 0", "--gpus"),
    ("topology show -f - -o svg --bandwidth", "--bandwidth"),
    ("topology show -f - --node '\x1b[2J'", "--node"),
    ("topology import", "FILE"),
    ("topology import - --node ''", "--node"),
    ("topology plan", "--gpus"),
    ("topology plan --gpus 0,3 -f -", "expected how many GPUs the job needs, such as 2, found "),
    (f"topology plan --gpus {'1' * 5000} -f -", "expected how many GPUs the job needs, such as 2, found "),
    (f"{PLAN} {DGX1} --busy 0,99", 'found "99"'),
    (f"{PLAN} {DGX1} --busy l40s:0", "a known node"),
    (f"{PLAN} {DGX1} --busy '\x1b[2J'", r'found "\x1b[2J"'),
    (f"{PLAN} {STATE} --min-bandwidth nan", "GB/s, 0 or more, found nan"),
    (f"{PLAN} {STATE} --network-bandwidth 0", "GB/s, more than 0, found 0.0"),
    (f"{PLAN} -f - --max-nodes 1", "--max-nodes"),
    (f"{PLAN} --state a --policy pack", "--policy"),
    (f"{PLAN} --state a --kubeconfig b", "--kubeconfig"),
    (f"{PLAN} -f - --kubeconfig b", "--kubeconfig"),
    (f"{PLAN} --kubeconfig b --policy pack", "--policy"),
    (f"{PLAN} -f - --min-level NODE", "--min-level"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words[:99] for words, _ in WRONG])
def test_wrong_usage_ends_with_2_and_says_what_was_expected(words: str, said: str) -> None:
    done = gpu_topology(*shlex.split(words))
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())
    assert "\x1b" not in done.err
