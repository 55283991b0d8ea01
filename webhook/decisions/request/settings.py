"""The one reader of settings: which variables decide about links, who reads each, and where a pod sets them.

Who reads a variable decides where it counts. HAMi's device plugin sees literal entries of ``env`` alone, and the
container runtime sees ``env`` before any command runs; a process sees what shells, launchers and Python set as well.
``envFrom``, ``valueFrom`` and files are places whose values are not known here.

The search in text is a heuristic: the effect of a shell or a program cannot be known from its text. It knows the usual
ways in which shells, launchers (``mpirun -x NAME=value``) and Python set or remove a variable, and looks at a few
hundred characters around each mention. So a text may turn an answer to ``no`` or ``unknown``, never to ``yes``.
Sources: HAMi pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go; Open MPI, mpirun(1), option -x.
"""

import enum
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate
from types import MappingProxyType

import msgspec

from webhook.objects.pod import Container, EnvVar, may_spell
from webhook.words import names

P2P_DISABLE, SHM_DISABLE = "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"
IGNORE_DISABLED_P2P = "NCCL_IGNORE_DISABLED_P2P"
GRAPH_FILE, CONF_FILE, UCX_TLS = "NCCL_GRAPH_FILE", "NCCL_CONF_FILE", "UCX_TLS"
ALLOCATORS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""The variables of PyTorch's allocator; the second one is the name since PyTorch 2.9."""
MC_NVLINK, MC_MNNVL, MC_IPC = "MC_INTRANODE_NVLINK", "MC_FORCE_MNNVL", "MC_USE_NVLINK_IPC"
MC_POOL = "SGLANG_MOONCAKE_CUSTOM_MEM_POOL"
LMCACHE_NIXL, LMCACHE_PD = "LMCACHE_ENABLE_NIXL", "LMCACHE_ENABLE_PD"
LMCACHE_DEVICES = ("LMCACHE_NIXL_BUFFER_DEVICE", "LMCACHE_PD_BUFFER_DEVICE")
TRTLLM_UCX, TRTLLM_NIXL = "TRTLLM_USE_UCX_KVCACHE", "TRTLLM_USE_NIXL_KVCACHE"
NIXL_NAMES = ("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT")


class Reader(enum.Enum):
    """The program that reads a variable."""

    PROCESS = enum.auto()
    """A library in the container. It also sees what a command sets."""
    RUNTIME = enum.auto()
    """The container runtime, which sees ``env`` alone."""
    DEVICE_PLUGIN = enum.auto()
    """HAMi's device plugin, which sees literal entries of ``env`` alone."""


class Known(msgspec.Struct, frozen=True):
    """A variable of the table."""

    shape: re.Pattern[str]
    """The values that are read, and kept, of a text. Any other one is not known."""
    reader: Reader = Reader.PROCESS


_WORD = re.compile(r"[+-]?\w{0,20}", re.ASCII)
_ENTRY = r"(?:-?\d{1,4}|all|none|void|GPU-[0-9A-Fa-f-]{1,36})"
_LIST = re.compile(rf"(?:{_ENTRY}(?:,{_ENTRY}){{0,31}})?", re.ASCII)
_TRANSPORTS = re.compile(r"(?:\^?[a-z0-9_]{1,16}(?:,[a-z0-9_]{1,16}){0,31})?")
_ALLOCATOR = re.compile(r"(?:[a-z0-9_]{1,40}:[A-Za-z0-9.]{1,8}(?:,[a-z0-9_]{1,40}:[A-Za-z0-9.]{1,8}){0,15})?")
_EMPTY = re.compile("")

TABLE: Mapping[str, Known] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *(P2P_DISABLE, names.ENV_NCCL_P2P_LEVEL, SHM_DISABLE, names.ENV_NCCL_NVLS_ENABLE, IGNORE_DISABLED_P2P),
                *(names.ENV_NCCL_CUMEM_ENABLE, MC_NVLINK, MC_MNNVL, MC_IPC, MC_POOL, LMCACHE_NIXL, LMCACHE_PD),
                *(*LMCACHE_DEVICES, TRTLLM_UCX, TRTLLM_NIXL),
            ),
            Known(_WORD),
        ),
        **dict.fromkeys(
            (names.ENV_NCCL_HOSTID, GRAPH_FILE, CONF_FILE, names.ENV_NCCL_TOPO_FILE, *NIXL_NAMES), Known(_EMPTY)
        ),
        UCX_TLS: Known(_TRANSPORTS),
        **dict.fromkeys(ALLOCATORS, Known(_ALLOCATOR)),
        names.ENV_CUDA_VISIBLE_DEVICES: Known(_LIST),
        names.ENV_NVIDIA_VISIBLE_DEVICES: Known(_LIST, Reader.RUNTIME),
        names.ENV_DISABLE_CONTROL: Known(_WORD, Reader.DEVICE_PLUGIN),
    }
)
"""The variables that decide about links, by name."""

_IN_TEXT = tuple(name for name, known in TABLE.items() if known.reader is Reader.PROCESS)
_NEEDLES = (
    *(b"NCCL_", b"CUDA_VISIBLE", b"UCX_TLS", b"ALLOC_CONF", b"NVLINK", b"MNNVL", b"LMCACHE_", b"_KVCACHE"),
    *(b"_NIXL_", b"MOONCAKE_"),
)
"""A container whose commands have none of these sets none of the variables; few of them rule out most commands."""
_SPELLED = tuple(name.encode() for name in _IN_TEXT)

LONGEST = 65_536
"""Characters that are read of a container's commands."""
LONGEST_OF_ALL = 4 * LONGEST
"""Characters that are read of all containers of a pod together: for 128 containers with :data:`LONGEST` each, the
reviews of other pods would wait for nearly half a second."""
MENTIONS = 128
"""The most mentions in one container; later ones are not looked at."""
MENTIONS_OF_ALL = 4 * MENTIONS
"""The most mentions in all containers of a pod together."""
CUT = "redacted-rest-of-NCCL_P2P_DISABLE"
"""The word that stands in a saved pod for text that was not read."""


class Place(enum.StrEnum):
    """The place of a setting in a container."""

    ENV = "env"
    COMMAND = "command"
    ARGUMENTS = "args"
    HOOK = "a probe or lifecycle hook"
    """It has processes of its own: what it sets reaches no other."""


class Setting(msgspec.Struct, frozen=True):
    """A variable that a command sets or removes."""

    name: str
    value: str | None
    """The value; ``None`` where it is not known."""
    place: Place
    is_certain: bool = False
    """Whether the program of the container surely gets the value."""
    is_default: bool = False
    """Whether it holds only where nothing else sets the variable: ``${NAME:-value}``."""
    is_removed: bool = False
    """Whether the variable is removed, so that the default of its reader holds."""

    @property
    def words(self) -> list[str]:
        """The words of a command in which the reader finds this setting."""
        if self.is_removed:
            return [f"unset {self.name}"]
        value = "$" if self.value is None else self.value
        shown = f"${{{self.name}:-{value}}}" if self.is_default else value
        return [*(["-x"] if self.is_certain else []), f"{self.name}={shown}"]


class Texts(msgspec.Struct, frozen=True):
    """The settings in the commands of a container."""

    settings: tuple[Setting, ...] = ()
    """The settings, in the order of the text."""
    is_cut: bool = False
    """Whether some of the text was not read."""

    @property
    def of_program(self) -> tuple[Setting, ...]:
        """The settings of the program of the container, without those of probes and hooks."""
        return tuple(setting for setting in self.settings if setting.place is not Place.HOOK)

    @property
    def lists(self) -> tuple[str, ...]:
        """The variables with lists of GPUs that are set or removed. A list that shows no GPU takes none from others."""
        found = (each for each in self.settings if each.name == names.ENV_CUDA_VISIBLE_DEVICES and not each.is_default)
        return tuple(dict.fromkeys(each.name for each in found if each.value not in ("", "-1")))


NO_TEXTS = Texts()

_BEFORE, _AFTER = 256, 640
"""Characters that are searched before and after a mention."""
_QUOTE = r"""\\?["']"""
_SHELL = re.compile(rf"(?:{_QUOTE})?(\+?)=(?!=)")
"""``NAME=value``, also behind ``export``, ``env``, ``-x`` or ``--env``, and as a keyword argument in Python."""
_ITEM = re.compile(rf"{_QUOTE}[ \t]{{0,4}}\][ \t]{{0,4}}=(?!=)[ \t]{{0,4}}")
"""``os.environ["NAME"] = value``."""
_MEMBER = re.compile(rf"{_QUOTE}[ \t]{{0,4}}[:,][ \t]{{0,4}}")
"""``{"NAME": value}``, ``putenv("NAME", value)`` and ``setdefault("NAME", value)``."""
_CALL = re.compile(rf"(?:(putenv|setenv)|setdefault)\([ \t]{{0,4}}{_QUOTE}\Z")
_CSH = re.compile(r"\bsetenv[ \t]{1,4}\Z")
_PAIR = re.compile(r"(?<!-)-g?env\s{1,4}\Z")
"""``mpirun -env NAME value`` of MPICH and Intel MPI."""
_REMOVED = re.compile(
    rf"(?:\s-u\s{{1,4}}|--unset[=\s]|(?:(?:\.pop|unsetenv)\(|\bdel [\w.]{{1,32}}\[)[ \t]{{0,4}}{_QUOTE})\Z"
)
_REFERENCE = re.compile(r"\$\{?[#!]?\Z")
_COMMENT = re.compile(r"(?:\A|\s)#")
_SEPARATOR = re.compile(r"[\n;&|`]")
_SHOWN = re.compile(r"[\s({!]{0,16}(?:(?:then|do|else)\s{1,4})?(?:echo|printf|print|logger|grep|egrep|fgrep)\b")
"""A command that only shows its arguments, or searches for them, unless it writes them into a file."""
_INTO_FILE = re.compile(r"[^\n]*?\s>{1,2}\s{0,4}[\w./~$]")
_UNSET = re.compile(r"[\s({]{0,16}(?:(?:then|do|else)\s{1,4})?unset\s")
_EXPORTED = re.compile(r"\s{0,16}(?:exec\s{1,4})?(?:export|(?:declare|typeset)\s{1,4}-x|(?:/usr/bin/)?env)\s")
_LAUNCHED = re.compile(r"""(?:^|\s)(?:-x|-e|--env|--export)(?:[ \t\n=]{1,4})["']?\Z""")
_ASSIGNMENTS = re.compile(r"\s{0,16}(?:\w{1,64}=[^\s;&|]{0,128}[ \t]{1,4}){0,4}\Z")
_BRANCH = re.compile(
    r"(?:^|[\s;&|({])(?:if|elif|else|case|for|while|until|select|function|def|try|except)\s|\|\||\(\)\s{0,4}\{|(?:^|[\s;&|])\("
)
_BRANCHES = ("if", "else", "case", "for", "while", "until", "select", "function", "def", "try", "exc", "||", "()", "(")
"""A text without these has no branch."""
_LITERAL = re.compile(r"""(\\?["'])([^"'\\$`\n]{0,512})\1|([^\s"'`$;&|()<>\\{}\[\]]{0,512})""")
_ENDS = re.compile(r"""[\s;&|)}\]"',<>\\]|\Z""")
_VALUE_OF = re.compile(r"""(?:\\?["'])?\$(?:\((\w{1,64})\)|\{(\w{1,64})\}|(\w{1,64}))(?:\\?["'])?(?=[\s;&|)]|\Z)""")
_DEFAULT = re.compile(r""":?[-=]([^}$`"']{0,512})\}""")
"""The end of ``NAME=${NAME:-value}``."""
_NOT_IN_NAME = re.compile(r"[A-Za-z0-9_]")


@cache
def _own(name: str) -> re.Pattern[str]:
    """Returns the beginnings of values that are the variable's own value."""
    return re.compile(
        rf"(?:{_QUOTE})?\$(?:{name}(?![A-Za-z0-9_]|,[0-9G])|[{{(]{name}(?!:?\+|[A-Za-z0-9_]|\}},[0-9G]))"
        rf"|os\.(?:environ(?:\.get)?|getenv)[\[(]{_QUOTE}{name}{_QUOTE}"
    )


def literal(variable: EnvVar | None) -> str | None:
    """Returns the value that stands in the pod itself; ``None`` if it comes from elsewhere or ``variable`` is None."""
    if variable is None or variable.value_from is not None or "$(" in (variable.value or ""):
        return None
    return variable.value or ""


def literals(container: Container) -> dict[str, str]:
    """Returns the values of ``env`` that stand in the pod itself, by the names of the variables."""
    found = ((variable.name, literal(variable)) for variable in container.env or ())
    return {name: value for name, value in found if value is not None}


_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""The texts that Go's strconv.ParseBool reads as true."""


def disables_control(env: Iterable[EnvVar]) -> bool:
    """Returns whether the device plugin finds ``CUDA_DISABLE_CONTROL`` true: it looks at every entry of the name."""
    return any(variable.name == names.ENV_DISABLE_CONTROL and variable.value in _TRUE for variable in env)


def read_texts(containers: Iterable[Container]) -> Iterator[Texts]:
    """Yields the settings in the commands of each container of a pod: ``command``, ``args``, probes and hooks.

    Raises:
        MalformedPod: a command has another type than in a container.
    """
    room, mentions = LONGEST_OF_ALL, MENTIONS_OF_ALL
    for container in containers:
        fields = container.command_fields
        if not (may_spell(fields, *_NEEDLES) and may_spell(fields, *_SPELLED)):
            yield NO_TEXTS
            continue
        text = "\n".join(container.commands)
        read = text[: min(LONGEST, room)]
        room -= len(read)
        found = _mentions(read, min(MENTIONS, mentions) + 1)
        is_cut = len(read) < len(text) or len(found) > min(MENTIONS, mentions) or CUT in container.commands
        found = found[: min(MENTIONS, mentions)]
        mentions -= len(found)
        settings = _Text(read, container).settings(found) if found else ()
        yield Texts(tuple(dict.fromkeys(settings)), is_cut)


def _mentions(text: str, most: int) -> list[tuple[int, str]]:
    """Returns the first mentions of the variables, with their positions."""
    found = [(at, name) for name in _IN_TEXT for at in _occurrences(text, name, most)]
    return sorted(found)[:most]


def _occurrences(text: str, name: str, most: int) -> Iterator[int]:
    at = text.find(name)
    while at >= 0 and most:
        if not (_NOT_IN_NAME.match(text[at - 1 : at]) or _NOT_IN_NAME.match(text, at + len(name))):
            yield at
            most -= 1
        at = text.find(name, at + len(name))


class _Text:
    """The commands of a container as one text, a word in each line."""

    def __init__(self, text: str, container: Container) -> None:
        words = container.commands
        self._text, self._words = text, words
        self._starts = [0, *accumulate(len(word) + 1 for word in words)]
        self._arguments = len(container.command)
        self._hooks = self._arguments + len(container.arguments)
        self._container = container

    @cached_property
    def _branches(self) -> bool:
        """Whether some of the text may not run."""
        return any(word in self._text for word in _BRANCHES) and _BRANCH.search(self._text) is not None

    def settings(self, mentions: Sequence[tuple[int, str]]) -> Iterator[Setting]:
        """Yields the settings among the mentions."""
        for at, name in mentions:
            before = self._text[max(0, at - _BEFORE) : at]
            after = self._text[at + len(name) : at + len(name) + _AFTER]
            index = bisect_right(self._starts, at) - 1
            place = (
                Place.HOOK if index >= self._hooks else Place.ARGUMENTS if index >= self._arguments else Place.COMMAND
            )
            found = self._setting(name, before, after, place)
            if found is None:
                continue
            certain = (
                found.value is not None
                and not found.is_default
                and self._is_certain(at, len(name), index, before, after)
            )
            yield msgspec.structs.replace(found, is_certain=certain)

    def _setting(self, name: str, before: str, after: str, place: Place) -> Setting | None:
        line = before[before.rfind("\n") + 1 :]
        if _COMMENT.search(line):
            return None
        if before.endswith(f"{name}=${{") or (before[:-3].endswith(f"{name}=") and before.endswith(('"${', "'${"))):
            default = _DEFAULT.match(after)
            return Setting(name, _shaped(name, default[1]), place, is_default=True) if default else None
        if _REFERENCE.search(before[-4:]):
            return None
        command = _SEPARATOR.split(before)[-1]
        if _SHOWN.match(command) and not _INTO_FILE.match(after):
            return None
        if _REMOVED.search(before[-64:]) or _UNSET.match(command):
            return Setting(name, None, place, is_removed=True)
        if _CSH.search(before[-16:]) or _PAIR.search(before[-16:]):
            return Setting(name, self._value(name, after.lstrip()), place)
        return self._assigned(name, before, after, place)

    def _assigned(self, name: str, before: str, after: str, place: Place) -> Setting | None:
        found = _SHELL.match(after)
        if found and found[1]:
            return Setting(name, None, place)
        is_default = False
        if found is None:
            found = _ITEM.match(after)
        if found is None and before[-1:] in ("'", '"'):
            found = _MEMBER.match(after)
            call = _CALL.search(before[-24:])
            if found and "," in found[0] and call is None:
                return None
            is_default = bool(call and not call[1])
        if found is None:
            return None
        value = after[found.end() :]
        if _own(name).match(value):
            return None  # also ``NAME=${NAME:-value}``, whose second mention is read
        closes = found[0] == "=" and value[:1] in ("'", '"') and before[-1:] == value[:1]
        is_computed = closes or (found.re is not _SHELL and value[:1] not in ("'", '"', "\\"))
        return Setting(name, None if is_computed else self._value(name, value), place, is_default=is_default)

    def _value(self, name: str, text: str) -> str | None:
        """Returns the value at the beginning of a text; ``None`` if it is no literal, or not one of the table."""
        reference = _VALUE_OF.match(text)
        if reference:
            value = literals(self._container).get(reference[reference.lastindex or 0])
            return None if value is None else _shaped(name, value)
        found = _LITERAL.match(text)
        if found is None or (not found[0] and text[:1] in ("'", '"', "\\")) or not _ENDS.match(text, found.end()):
            return None
        return _shaped(name, found[2] if found[1] else found[3])

    def _is_certain(self, at: int, length: int, index: int, before: str, after: str) -> bool:
        """Returns whether the program of the container surely gets an assigned value."""
        start, end = self._starts[index], self._starts[index + 1] - 1
        word = self._words[index]
        if at == start and not any(map(str.isspace, word[length : length + _AFTER])):
            earlier = self._words[max(0, index - 16) : index]
            launched = bool(earlier) and earlier[-1] in ("-x", "-e", "--env", "--export")
            return launched or any(each.rpartition("/")[2] == "env" for each in earlier)
        if self._branches:
            return False
        command = _SEPARATOR.split(before[-(at - start) :])[-1] if at > start else ""
        last = max(self._text.rfind(sign, start, end) for sign in "\n;&|")
        if _LAUNCHED.search(before[-16:]):
            return True
        if _EXPORTED.match(command) or not _SHELL.match(after):
            return last > at
        return bool(_ASSIGNMENTS.match(command)) and last < at and " " in after


def _shaped(name: str, value: str) -> str | None:
    return value if TABLE[name].shape.fullmatch(value) else None
