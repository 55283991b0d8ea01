"""Lists of GPUs that the commands of containers set."""

from webhook.decisions.request.settings import read_texts
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.words import containers
from webhook.words.catalogue.entry import Entry, Message
from webhook.words.listing import listed


def commanded_lists(examined: ExaminedPod, entry: Entry) -> Message | None:
    """Returns the message of ``entry`` about the containers whose commands set such lists; ``None`` if none does."""
    every = read_texts(container.spec for container in examined.gpu_containers)
    sets = {container: texts.lists for container, texts in zip(examined.gpu_containers, every, strict=True)}
    setting = [container for container, found in sets.items() if found]
    if not setting:
        return None
    variables = listed(dict.fromkeys(name for found in sets.values() for name in found))
    return entry.say(containers=containers(setting), variables=variables)
