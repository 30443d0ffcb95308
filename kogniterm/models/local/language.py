"""Which of the two languages a request is in, and the few sentences said in each.

The local model's own sentences are part of the conversation, like a reply of any other model, so
they follow the language of the request and not the language of the user interface.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Literal, get_args

Language = Literal["en", "es"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_SPANISH_LETTERS = re.compile(r"[ñ¿¡áéíóú]", re.IGNORECASE)
_WORD = re.compile(r"[a-záéíóúüñ]+", re.IGNORECASE)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SPANISH = _words(
    """el la los las un una unos unas de del al en con sin por para que cual cuales cuanto cuanta
    cuantos cuantas como donde quien hay esta estan este estos esa ese eso aqui mi mis tu tus su
    sus y o no si mas menos muestra muestrame dime lista cuenta crea borra elimina busca encuentra
    mueve copia renombra cambia ordena archivo archivos carpeta carpetas directorio fichero ficheros
    linea lineas palabra palabras hola gracias buenos buenas adios ocupa ocupan contenido imprime
    escribe guarda todos todas todo cada hora fecha hoy se lo ultimo ultimos primeras primeros haz
    comprime reemplaza sustituye ejecuta anade agrega quita puedes ayuda hasta luego despues calcula
    descomprime pasa convierte"""
)
_ENGLISH = _words(
    """the an of in on at with without for to what which how many much where who is are there this
    these that my your and or not more less than show me tell list count create delete remove find
    search move copy rename change sort file files folder folders directory line lines word words
    hello hi thanks thank please contents print write save all every each today last first make
    compress replace run add into from by do does can you help it them"""
)


def plain(text: str) -> str:
    """`text` in lower case without accents (but with its ñ as n)."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def language_of(text: str) -> Language:
    """Spanish or English, by letters only Spanish has, then by each language's little words."""
    words = _WORD.findall(plain(text))
    spanish = sum(word in _SPANISH for word in words)
    english = sum(word in _ENGLISH for word in words)
    if _SPANISH_LETTERS.search(text):
        spanish += 2
    return "es" if spanish > english else "en"


SENTENCES: Mapping[str, Mapping[Language, str]] = {
    "purpose": {
        "en": "For your request: “{request}”",
        "es": "Para lo que pediste: «{request}»",
    },
    "gave": {"en": "`{command}` gave:", "es": "`{command}` dio:"},
    "done": {
        "en": "Done: `{command}` ended with exit code 0 and printed nothing.",
        "es": "Hecho: `{command}` terminó con código 0 y no imprimió nada.",
    },
    "nothing": {
        "en": "Nothing found: `{command}` printed nothing (exit code {code}).",
        "es": "No se encontró nada: `{command}` no imprimió nada (código {code}).",
    },
    "failed": {
        "en": "`{command}` failed with exit code {code}.",
        "es": "`{command}` falló con el código {code}.",
    },
    "complained": {
        "en": "`{command}` printed nothing but errors (exit code 0).",
        "es": "`{command}` no imprimió más que errores (código 0).",
    },
    "not_finished": {
        "en": "`{command}` did not end by itself, so this is not a complete result.",
        "es": "`{command}` no terminó por sí mismo, así que el resultado no está completo.",
    },
    "not_run": {
        "en": "`{command}` was not run, so there is no result.",
        "es": "`{command}` no se ejecutó, así que no hay resultado.",
    },
    "left": {
        "en": "Not done because of that: {requests}.",
        "es": "Por eso quedó sin hacer: {requests}.",
    },
    "would": {
        "en": "This should do it. It was not run, and the small local model is often wrong:",
        "es": "Con esto debería hacerse. No se ejecutó, y el pequeño modelo local yerra a menudo:",
    },
    "do_it": {
        "en": "Say “do it” to have it proposed.",
        "es": "Di «hazlo» para que se proponga.",
    },
    "nothing_shown": {
        "en": "There is no command of the last answer to run. Say what you want done.",
        "es": "La última respuesta no mostró ninguna orden. Di qué quieres hacer.",
    },
    "judgement": {
        "en": "I am too small to judge that. I looked at nothing and ran nothing. Ask me for "
        "facts (what is in a folder, how large it is, when it changed) and decide yourself.",
        "es": "Soy demasiado pequeño para juzgarlo. No miré ni ejecuté nada. Pídeme datos (qué "
        "hay en una carpeta, cuánto ocupa, cuándo cambió) y decide tú.",
    },
    "harmful": {
        "en": "Nothing was run: all I found is `{command}`, which would delete or end something, "
        "and you did not ask for that. Say it in other words.",
        "es": "No se ejecutó nada: solo encontré `{command}`, que borraría o cerraría algo, y no "
        "lo pediste. Dilo con otras palabras.",
    },
    "unverified": {
        "en": "_From the small local model's memory, not checked against anything:_",
        "es": "_De memoria del pequeño modelo local, sin comprobar con nada:_",
    },
}


def say(name: str, language: Language, /, **values: object) -> str:
    """The sentence called `name`, in `language`."""
    return SENTENCES[name][language].format(**values)
