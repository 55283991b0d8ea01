"""The kind of each entry's remedy: a change of the pod, a change of its namespace, or an action of somebody else."""

import enum

from webhook.words.catalogue.entry import Entry


class Remedy(enum.StrEnum):
    """The kind of a remedy."""

    POD = "a change of the pod"
    """The author of the pod changes it, or the template that makes it."""
    NAMESPACE = "a change of the namespace"
    """Whoever may write its labels and annotations changes the namespace."""
    ADMINISTRATOR = "an action of an administrator of the cluster"
    READER = "something to look at, or to wait for"
    """Whoever reads the message looks elsewhere, or waits. Nothing changes."""
    NONE = "none"


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAMESPACE = _codes("GT103 GT109 GT123 GT124 GT190 GT191 GT192 GT508 GT573 GT812")
_ADMINISTRATOR = _codes(
    "GT101 GT130 GT137 GT156 GT157 GT161 GT162 GT163 GT164 GT165 GT167 GT181 GT182 GT209 GT230 GT231 GT232 GT233 "
    "GT238 GT242 GT243 GT244 GT254 GT268 GT269 GT277 GT278 GT288 GT298 GT302 GT306 GT307 GT310 GT313 GT314 GT315 GT316 "
    "GT317 GT323 GT329 GT331 GT333 GT335 GT342 GT343 GT352 GT353 GT356 GT357 GT358 GT365 GT368 GT602 GT603 GT604 "
    "GT628 GT637 GT640 GT643 GT645 GT656 GT659 GT660 GT680 GT701 GT703 GT705 GT706 GT708 GT710 GT712 GT714 GT715 "
    "GT716 GT720 GT721 GT722 GT810 GT811 GT815 GT820 GT821 GT823 GT824 GT840 GT841 GT846 GT847 GT848 GT849 GT850 "
    "GT851 GT853 GT855 GT858 GT860 GT862 GT864 GT865 GT867"
)
_READER = _codes(
    "GT102 GT106 GT112 GT127 GT128 GT131 GT136 GT138 GT139 GT141 GT144 GT152 GT153 GT155 GT159 GT180 GT184 GT234 "
    "GT237 GT239 GT259 GT270 GT293 GT294 GT301 GT303 GT304 GT308 GT309 GT312 GT320 GT321 GT322 GT324 GT325 GT327 "
    "GT336 GT340 GT345 GT361 GT362 GT363 GT366 GT367 GT369 GT410 GT411 GT418 GT421 GT428 GT531 GT551 GT560 GT561 "
    "GT579 GT621 GT622 GT626 GT629 GT630 GT631 GT632 GT634 GT636 GT639 GT641 GT642 GT644 GT648 GT650 GT651 GT653 "
    "GT654 GT655 GT658 GT671 GT672 GT673 GT690 GT692 GT713 GT822 GT825 GT842 GT843 GT844 GT845 GT852 GT854 "
    "GT857 GT859 GT861 GT866 GT900 GT901 GT902 GT903 GT906 GT910 GT913 GT914 GT915 GT917 GT918 GT919 GT920 GT921"
)
LISTED = (_NAMESPACE, _ADMINISTRATOR, _READER)


def remedy_of(entry: Entry) -> Remedy:
    """Return the kind of the remedy of an entry. One that no list names is a change of the pod."""
    if not entry.fix:
        return Remedy.NONE
    kinds = (Remedy.NAMESPACE, Remedy.ADMINISTRATOR, Remedy.READER)
    return next((kind for codes, kind in zip(LISTED, kinds, strict=True) if entry.code in codes), Remedy.POD)
