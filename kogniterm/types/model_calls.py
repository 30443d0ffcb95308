"""A call of a model as values: the request, the events of its stream, the reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kogniterm.types.actions import ToolSpec
from kogniterm.types.localized import Phrase
from kogniterm.types.token_usage import Usage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage


class ModelInfo(NamedTuple):
    """The properties of a model. Windows are in tokens; `local` runs in process.

    `one_command` marks a model too small to drive the loop: one request, one command, and the
    command's own output is the answer. `images` are the media types of images it takes. `efforts`
    are the efforts of reasoning to choose from, and `effort` is the one that was chosen.
    `search_host` is the host at which its provider searches the web; empty where it does not.
    `finds_facts` is whether it is asked for facts to remember, which a script may leave out.
    `server` is the host at which it is reached, with the port where it has one; empty for a model
    that is not.
    """

    name: str
    provider: str
    context_window: int
    max_output: int
    calls_tools: bool = True
    local: bool = False
    one_command: bool = False
    images: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()
    effort: str = ""
    search_host: str = ""
    finds_facts: bool = True
    server: str = ""

    @property
    def label(self) -> str:
        """Return the name, with the effort of reasoning where one was chosen."""
        return f"{self.name} ({self.effort})" if self.effort else self.name


ModelPurpose = Literal[
    "create_plan", "decide_action", "compact", "judge", "extract_facts", "web_search"
]


class ModelRequest(NamedTuple):
    """One model call. `schema`, if given, is a JSON schema the reply's text must satisfy.

    For the purpose `web_search` the provider is offered its own search of the web, and no tools.
    `agent` is the sub-agent that asks, by its call id; nothing of it goes to a provider. `language`
    is the one of answers, by its code, for a model that writes them by rules; the others are told
    in a message.
    """

    messages: tuple[BaseMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    purpose: ModelPurpose = "decide_action"
    schema: Mapping[str, Any] | None = None
    agent: str = ""
    language: str = ""


class ModelAsked(NamedTuple):
    """The start of a model call: what for, which agent asks, and which model.

    `id` is unique in the process. `agent` is the sub-agent by its call id, empty for the main one.
    """

    purpose: str
    id: str = ""
    agent: str = ""
    model: str = ""
    server: str = ""
    effort: str = ""


class ModelFailed(NamedTuple):
    """The end of a model call without a reply; `kind` is the class of the error.

    `call` is the id of the call, as in `ModelAsked`.
    """

    call: str
    kind: str


class WebSource(NamedTuple):
    """A page that a search of the web found, with an excerpt of it."""

    title: str
    url: str
    text: str = ""


class WebAnswer(NamedTuple):
    """The result of a search of the web: an answer, pages, and the `usage` of a model it asked."""

    text: str = ""
    sources: tuple[WebSource, ...] = ()
    usage: Usage = Usage()


class AnswerDelta(NamedTuple):
    """A piece of the model's text as it streams."""

    text: str


class ThoughtDelta(NamedTuple):
    """A piece of the model's thinking."""

    text: str


class ModelRetried(NamedTuple):
    """A failed model call, to be made again in `wait` seconds; `call` is the id of the call.

    With the `attempt` 0 nothing failed: the call waits for a limit of the settings.
    """

    attempt: int
    of: int
    wait: float
    reason: Phrase
    call: str = ""


class ModelLoading(NamedTuple):
    """The loading of a model on this machine before it can answer; `done` at its end."""

    done: bool = False


UNUSABLE = "unusable"
"""Key of a message's response metadata with the reason why it can be neither shown nor acted on."""


class Reply(NamedTuple):
    """The reply as it came; always the last event of a model call.

    It may be empty, and a provider may have cut it or found it malformed: then the message's
    `response_metadata` says so under `UNUSABLE`, in words for the model. `sources` are the pages
    that a search of the web led to. Where the call was announced, `asked` is how, and `first` the
    seconds until the first piece of the reply came. `model` names the model, where it is not that
    of the session.
    """

    message: AIMessage
    usage: Usage = Usage()
    sources: tuple[WebSource, ...] = ()
    asked: ModelAsked | None = None
    first: float | None = None
    model: str = ""

    @property
    def finish_reason(self) -> str:
        """Return why the provider says that the reply ended; empty where it does not say."""
        given = self.message.response_metadata
        names = ("finish_reason", "stop_reason", "done_reason")
        return next((str(given[name]) for name in names if given.get(name)), "")


ModelEvent = AnswerDelta | ThoughtDelta | ModelRetried | ModelLoading | Reply


ASIDE = ("compact", "judge", "extract_facts", "web_search")
"""The purposes of calls beside the conversation of an agent."""


class RecordedCall(NamedTuple):
    """A model call of a recorded session: the reply, or the failure instead of it.

    `asker` is the agent (empty: the main one), or a purpose of `ASIDE`. `heard` is what was added
    to the agent's history since its reply before.
    """

    asker: str
    reply: AIMessage | None = None
    usage: Usage = Usage()
    heard: tuple[BaseMessage, ...] = ()
    failure: Phrase | None = None


class Recording(NamedTuple):
    """The model of a recorded session, and its calls in order."""

    model: str
    calls: tuple[RecordedCall, ...]
