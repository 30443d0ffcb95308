"""The kinds of input, told apart by fixed rules, and the model's own fixed sentences.

The model is too small to decide this. Talk and requests for a judgement get a fixed answer; a
question about the world in general gets prose that is marked as unverified; a question how
something is done gets a command that is not run; everything else becomes one command per part of
the request (steps.py). The sentences follow the language of the request, like a reply of any
other model, and not that of the user interface.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import cast

from kogniterm.text.language import Language, language_of, plain

_HELLO = (
    r"hi|hello|hey|hola|good (morning|afternoon|evening)|buen(os|as) (dias|tardes|noches)|buenas|"
    r"que tal|how are you|how is it going|como (estas|va)"
)
_GREETING = rf"({_HELLO})( ({_HELLO}|there|kogniterm|a todos|today|hoy|all))*"
_THANKS = (
    r"((ok|vale|great|genial|perfect[oa]?|cool) )?(many thanks|thanks|thank you|thx|gracias|"
    r"muchas gracias|mil gracias)"
    r"( (very much|a lot|so much|for (all|everything|the help|your help)|that is all|for now|"
    r"por todo|por (la|tu) ayuda|eso es todo|nada mas|por hoy|por ahora|kogniterm))*|"
    r"(ok|okay|vale|great|cool|nice|perfect|genial|perfecto|de acuerdo|entendido)"
)
_FAREWELL = r"(bye|goodbye|good bye|see you|adios|chao|hasta (luego|pronto|manana))( kogniterm)?"
_ABILITIES = (
    r"(help|ayuda)|(please )?(what|how) can you (do|help)( for)?( me)?( with)?|"
    r"(can|could) you help( me)?|what do you do|"
    r"(que|como) (sabes|puedes) (hacer|ayudar(me)?)( por mi)?|(me )?puedes ayudar(me)?|"
    r"(do you|can you) (need|work without|run without|work) (the |an? )?"
    r"(internet|network|offline|key|api key|internet connection)|"
    r"(necesitas|funcionas sin|puedes funcionar sin) (internet|red|clave|conexion)|"
    r"en que (me )?puedes ayudar(me)?|para que sirves"
)
_IDENTITY = (
    r"who are you|what are you|which model (are you|is this)|what model (are you|is this)|"
    r"what is your name|are you (a |an )?(bot|human|ai|robot)|quien eres|que eres|"
    r"que modelo (eres|es este)|como te llamas|eres (un |una )?(bot|humano|persona|ia|robot)"
)

_TALK = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (_GREETING, "greeting"),
        (_THANKS, "thanks"),
        (_FAREWELL, "farewell"),
        (_ABILITIES, "abilities"),
        (_IDENTITY, "identity"),
    )
)

_ADVICE = re.compile(
    r"^((is|would|will) it (be )?(safe|ok|okay|fine|dangerous|risky|bad|wise|a good idea)|"
    r"(can|may|should|could|must) i (safely )?(delet|remov|eras|trust|kill|stop|worry|use|updat|"
    r"upgrad|install|reboot|restart)|what (should|could|can|would) i do|what do i do|"
    r"what (happens|would happen|will happen|could happen) (if|when)|which is better|"
    r"(puedo|podria|deberia|debo|tengo que) (borr|elimin|quit|mat|par|instal|actualiz|reinici|"
    r"fiar)|es (seguro|peligroso|malo|buena idea|recomendable|mejor)|que pasa(ria)? si|"
    r"que (hago|debo hacer|deberia hacer|puedo hacer)\b|que me recomiendas|es normal)"
    r"|, ¿?(what should i do|que hago|what do i do)\W*$"
)
_HOW_TO = re.compile(
    r"^(please )?(tell me |show me )?(how (do|can|would|could|should|might) (i|you|we|one) |"
    r"how to |(what|which)( is the)? command |"
    r"(dime |ensename )?como (puedo|podria|hago|haria|se (puede|podria|hace|haria)) |"
    r"como [a-z]+o (?!tien)|(que|con que|cual es el) comando )"
)
_KNOWLEDGE = re.compile(
    r"^(please )?("
    r"what( is|'s|s| are) (an? |the (difference|meaning|purpose|point|capital|population) )|"
    r"what does .* (mean|do|stand for)\b|what is meant by |"
    r"(can you |could you )?(explain|describe|define) (to me )?"
    r"(what|how|why|the (difference|concept|idea|meaning)) |what( is|'s) [a-z]+\W*$|"
    r"why (is|are|do|does|would|did|should) |how (does|do) [\w-]+ work|"
    r"who (invented|created|founded|discovered) |tell me (a joke|about yourself)|"
    r"que es [a-z]+\W*$|"
    r"(que|para que) (es|son|sirve|sirven) (una?|unos|unas|el (comando|programa)|la orden) |"
    r"que significa |que quiere decir |que diferencia hay |que hace (el comando|la orden) |"
    r"cual es la (diferencia|capital|poblacion) |por que |"
    r"explica(me)? (que|como|por que|la diferencia) |"
    r"como funciona |quien (invento|creo|fundo|descubrio) |cuentame un (chiste|cuento))"
)
_ASKS = re.compile(r"^(what|whats|what's|who|when|why|que|cual|quien|cuando|por que|para que)\b")
_NAMES_A_FILE = re.compile(
    r"[\w-]\.[a-z]\w{0,4}\b|(^|\s)\.[a-z]|/|\b(here|this|these|my|aqui|est[ae]s?|mis?)\b"
)
_LITTLE = re.compile(
    r"what('?s)?|who|when|where|why|que|cual|quien|cuando|donde|por|para|much|many|come|from|"
    r"did|was|were|been|es|fue|son|era"
)


_WANTS_OUTPUT = re.compile(
    r"^(how|which|is|are|does|do|has|have|any|show|list|tell|give|print|count|find|search|display|"
    r"look|see|check|calculate|compute|compare|cuanto|cuanta|cuantos|cuantas|hay|esta|estan|tiene|"
    r"muestra|muestrame|lista|dime|dame|imprime|cuenta|encuentra|busca|ensena|ensename|mira|ve|"
    r"comprueba|calcula|compara|enumera)\b"
)


def wants_output(text: str) -> bool:
    """Return whether this asks to be told something, so that silence of a command is no success."""
    words = _start(text)
    return "?" in text or bool(_ASKS.match(words) or _WANTS_OUTPUT.match(words))


_LEAD = re.compile(
    r"^(?:please|(?:can|could|would|will) you|i (?:want|need|would like|'d like) (?:you )?to|"
    r"i'd like to|help me(?: to)?|let me|let's|just|now|por favor|quiero|necesito|quisiera|"
    r"me gustaria|puedes|podrias|ayudame a|ahora),? +"
)
_LOOKS = re.compile(
    r"(?:view|read|get (?:me )?(?:the|a) (?:list|number|names?)|see|enumerate|locate|summari[sz]e|"
    r"(?:what|who|where|when)(?:'s|s| is| are)|whose|ver|saber|buscar|encontrar|listar|"
    r"mostrar(?:me)?|contar|calcular|comprobar|mirar|enumerar|localiza|localizar|lee|leer|existe|existen|"
    r"donde|quienes|cuales|que)\b"
)


def asks_to_look(text: str) -> bool:
    """Return whether this asks to find, list, show or count something, or is a question."""
    words = _start(text)
    while (lead := _LEAD.match(words)) is not None:
        words = words[lead.end() :].lstrip("¿¡ ")
    return any(rule.match(words) for rule in (_ASKS, _WANTS_OUTPUT, _LOOKS))


def asks_for_judgement(text: str) -> bool:
    """Return whether this asks for advice ("is it safe to …?"), which no small model has."""
    return bool(_ADVICE.search(_start(text)))


def asks_how(text: str) -> bool:
    """Return whether this asks for a command and not for its being run ("how do I …?")."""
    return bool(_HOW_TO.match(_start(text)))


def is_knowledge_question(text: str, known: Callable[[str, Language], float]) -> bool:
    """Return whether this asks about the world, not about this machine: no command could answer it.

    `known` gives the share of a text's words that the bank has; of a question about the world
    it is little.
    """
    words = _start(text)
    if _NAMES_A_FILE.search(words):
        return False
    if _KNOWLEDGE.match(words):
        return True
    if not _ASKS.match(words):
        return False
    rest = " ".join(word for word in re.findall(r"[\w']+", words) if not _LITTLE.fullmatch(word))
    return known(rest, language_of(text)) < _HALF


_HALF = 0.5


def _start(text: str) -> str:
    return plain(text).lstrip("¿¡ ").strip()


_DO_IT = re.compile(
    r"(yes |ok |okay |please |si |vale )?(do|run|execute) (it|that)( now)?( please)?|go ahead|"
    r"(si |vale |ok )?(por favor )?(hazlo|ejecutal[oa]|correl[oa]|lanzal[oa]|adelante)"
    r"( ya| ahora)?( por favor)?"
)


def says_do_it(text: str) -> bool:
    """Return whether this only says to run the command that was just shown."""
    return bool(_DO_IT.fullmatch(_folded(text)))


def _folded(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", plain(text)).split())


_GOES_ON = re.compile(
    r"(and|also|now|but|what about|how about|same|the same|only|again|instead|"
    r"y|e|ahora|tambien|pero|lo mismo|solo|otra vez|en cambio)\b"
)
_LONGEST_FOLLOW_UP = 8


def goes_on(text: str) -> bool:
    """Return whether a short input continues the one before it ("and in the docs folder?")."""
    words = plain(text).lstrip("¿ ").split()
    return len(words) <= _LONGEST_FOLLOW_UP and bool(_GOES_ON.match(" ".join(words)))


def small_talk(text: str) -> str | None:
    """The answer to pure conversation, None if `text` is anything more than that."""
    words = _folded(text)
    for pattern, name in _TALK:
        if pattern.fullmatch(words):
            return say(name, language_of(text))
    return None


@cache
def sentences() -> Mapping[str, Mapping[Language, str]]:
    """Return the model's own sentences by name and language; read once."""
    text = Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8")
    return cast("Mapping[str, Mapping[Language, str]]", tomllib.loads(text))


def say(name: str, language: Language, /, **values: object) -> str:
    """Return the sentence called `name`, in `language`."""
    return sentences()[name][language].format(**values)
