"""The condition that the API server asks the webhook when a scheduler binds the pod."""

from collections.abc import Iterator, Sequence

from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.insight.explain.evidence import BindingReviews
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.words.catalogue.claims import BINDINGS_OF_CLAIMS_PASS_BY
from webhook.words.catalogue.installation import (
    BINDINGS_NOT_REGISTERED,
    REGISTRATION_NOT_READ,
    SCHEDULER_CONDITION_UNREAD,
    SCHEDULER_MAY_PASS_BY,
    SCHEDULER_PASSES_BY,
    SCHEDULERS_NOT_FOUND,
)
from webhook.words.listing import listed

REVIEWED = "binding-reviewed"
_SERVICE_ACCOUNT = "system:serviceaccount:"


def binding_reviews(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields one finding about reviews of Bindings; nothing without a cluster."""
    reviews = examined.evidence.reviews
    if reviews is None:
        return
    if not examined.injected:
        yield not_needed(REVIEWED, "only the Bindings of pods that the webhook prepared matter to it")
    elif examined.family not in ("hami", CLAIM):
        yield not_needed(REVIEWED, "the GPUs are not scheduled by HAMi")
    elif examined.family == CLAIM and reviews.passed_by and not (reviews.asked or reviews.unclear):
        yield fails(REVIEWED, BINDINGS_OF_CLAIMS_PASS_BY.say(accounts=listed(reviews.passed_by)))
    else:
        yield _judged(reviews)


def _judged(reviews: BindingReviews) -> Finding:
    if reviews.problem:
        return unknown(REVIEWED, REGISTRATION_NOT_READ.say(problem=reviews.problem))
    if not reviews.is_registered:
        return unknown(REVIEWED, BINDINGS_NOT_REGISTERED.say(configuration=reviews.configuration))
    if reviews.passed_by:
        return _passed_by(reviews)
    if reviews.unclear:
        accounts = listed(reviews.unclear)
        said = SCHEDULER_CONDITION_UNREAD.say(accounts=accounts, configuration=reviews.configuration)
        return unknown(REVIEWED, said)
    if not reviews.asked:
        return unknown(REVIEWED, SCHEDULERS_NOT_FOUND.say())
    return holds(REVIEWED, f"the API server asks the webhook about Bindings by {listed(reviews.asked)}")


def _passed_by(reviews: BindingReviews) -> Finding:
    accounts, schedulers = listed(reviews.passed_by), for_the_chart(reviews.passed_by)
    others = reviews.asked + reviews.unclear
    if others:
        said = SCHEDULER_MAY_PASS_BY.say(accounts=accounts, others=listed(others), schedulers=schedulers)
        return unknown(REVIEWED, said)
    return fails(REVIEWED, SCHEDULER_PASSES_BY.say(accounts=accounts, schedulers=schedulers))


def for_the_chart(accounts: Sequence[str]) -> str:
    """Returns the user names of service accounts as the chart has them, such as ``hami-system/hami-scheduler``."""
    return ", ".join(account.removeprefix(_SERVICE_ACCOUNT).replace(":", "/", 1) for account in accounts)
