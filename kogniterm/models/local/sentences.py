"""The local model's own sentences, in the language of the request.

They are part of the conversation, like a reply of any other model, so they do not follow the
language of the user interface.
"""

from __future__ import annotations

from collections.abc import Mapping

from kogniterm.text.language import Language

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
    """Return the sentence called `name`, in `language`."""
    return SENTENCES[name][language].format(**values)
