"""Statements about somebody's health, faith, politics or sexual orientation, documents or home.

Such words also occur in commands and files, so nothing is taken out of a text: this only tells
whether a statement to remember is about a user or somebody they know. A condition next to a thing
("the diabetes dataset", "has a diabetes column") does not count.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_CONDITION = (
    r"(?:type [12] |chronic |severe |mild |prostate |breast |lung |clinical )?(?:diabet\w*"
    r"|asthma\w*|cancer|tumou?r|leuka?emia|lymphoma|melanoma|hiv(?:[- ]positive)?|aids"
    r"|depress(?:ion|ed|ive)|anxiety(?: disorder)?|panic attacks?|bipolar(?: disorder)?"
    r"|schizophreni\w*|epilep\w*|seizures|hypertension|high blood pressure|migraines?|adhd|autis\w*"
    r"|asperger\S*|dementia|alzheimer\S*|parkinson\S*|multiple sclerosis|hepatitis|pregnan\w*"
    r"|miscarriage|abortion|infertil\w*|coeliac|celiac\w*|lupus|crohn\S*|ulcerative colitis"
    r"|arthritis|rheumatism|a stroke|heart (?:attack|disease|condition|failure)|kidney (?:disease"
    r"|failure|stones)|insulin|antidepressants?|antipsychotics?|chemo(?:therapy)?|dialysis"
    r"|anorexi\w*|bulimi\w*|eating disorder|ptsd|ocd|insomnia|alcoholi\w*|addict(?:ed|ion)"
    r"|lactose[- ]intoleran\w*|gluten[- ]intoleran\w*|fibromyalgia|endometriosis|sclerosis"
    r"|psoriasis|anemi\w*|anaemi\w*|thyroid\w*|hypothyroid\w*|herpes|syphilis|gonorrh\w*|chlamydia"
    r"|tuberculosis|covid(?:-19)?|pacemaker|disab(?:led|ility)|sertraline|fluoxetine|prozac"
    r"|metformin|lithium|ritalin|xanax|warfarin|methadone|statins?|blood thinners?|disorder"
    r"|syndrome"
    # Spanish, without accents.
    r"|asma|asmatic[oa]|cancer de \w+|sida|vih|seropositiv[oa]|depresion|depresiv[oa]|deprimid[oa]"
    r"|ansiedad|trastorno\w*|esquizofreni\w*|convulsiones|hipertens\w*|tension alta|migranas?|tdah"
    r"|autismo|autista|demencia|esclerosis|embarazad[oa]|embarazo|aborto|celiac[oa]|celiaquia"
    r"|artritis|artrosis|reuma|ictus|infarto|cardiopatia|insuficiencia \w+|insulina|antidepresivos?"
    r"|quimio(?:terapia)?|dialisis|alcoholic[oa]|alcoholismo|adict[oa]|adiccion|insomnio"
    r"|intolerancia|intolerante|anemia|tiroides|hipotiroid\w*|hernia|soriasis|tuberculosis"
    r"|marcapasos|discapacidad|discapacitad[oa]|minusvalia|leucemia|linfoma|tumor|alergias?"
    r"|allerg(?:y|ies)|sertralina|metformina|litio|enfermedad \w+|sindrome)"
)
_WHO = (
    r"(?:i|i'm|i've|he|she|we|they|you|he's|she's|who|person|user|patient|employee|wife|husband"
    r"|partner|son|daughter|mother|father|mum|mom|dad|brother|sister|boss|colleague|friend|child"
    r"|kid|baby|grandmother|grandfather|girlfriend|boyfriend|uncle|aunt|cousin|neighbou?r|teacher"
    r"|yo|el|ella|ellos|persona|usuari[oa]|mujer|marido|esposa|pareja|hij[oa]s?|madre|padre"
    r"|herman[oa]|jef[ea]|companer[oa]|amig[oa]|abuel[oa]|novi[oa]|ti[oa]|prim[oa]|vecin[oa])"
)
_HAS = (
    r"(?:have|has|had|having|suffers?(?: from)?|suffered(?: from)?|am|is|was|are|been|got|gets"
    r"|takes?|taking|took|needs?|wears?|survived|beat|lives? with|living with|on|treated for"
    r"|undergo(?:es|ing)?|'?(?:m|s|ve)|tengo|tiene|tenemos|tuve|tuvo|tienen|padezco|padece|sufro"
    r"|sufre|sufrio|soy|es|estoy|esta|fue|era|tomo|toma|tomando|necesito|necesita|llevo|lleva|con)"
)
_THING = (
    r"(?! ?(?:column|table|data|dataset|field|model|study|app|api|service|project|module|page"
    r"|clinic|test|tests|research|registry|package|library|code|detection|prediction|classifier"
    r"|repo|server|cluster|in the (?:code|data|table)|column|tabla|columna|datos|proyecto|servicio"
    r"|aplicacion))\b"
)
_WITH_CONDITION = (
    # A user with a condition; a capitalised name counts as a user.
    rf"\b(?i:{_WHO})\b(?:[ ,]+[\w'-]+){{0,4}}?[ ']+(?i:{_HAS})\b(?: [\w'-]+){{0,4}}?"
    rf" (?i:{_CONDITION})\b(?i:{_THING})",
    rf"(?:^|[ (])[A-Z][a-z]{{2,}}(?: [A-Z][a-z]+)?(?:'s)? (?:(?:also|still|too|tambien"
    rf"|ya) )?(?i:{_HAS})\b(?: [\w'-]+){{0,4}}? (?i:{_CONDITION})\b(?i:{_THING})",
    # Without a subject, as Spanish and notes have it.
    rf"(?i)(?:^|[.,;:(] ?|\bque |\band |\by )(?:ya |tambien |no )?"
    r"(?:tengo|tiene|tuve|tuvo|padezco|padece|sufro|sufre|soy|es|estoy|esta|tomo|toma)"
    rf" (?:[\w'-]+ ){{0,4}}?{_CONDITION}\b{_THING}",
    rf"(?i)\b(?:my|his|her|our|mi|mis|su|sus)(?: \w+)? (?:{_CONDITION})\b{_THING}",
)
_HEALTH = (
    r"(?i)\b(?:me|le|fue|esta) (?:han )?diagnostica(?:d[oa]|ron)\b",
    r"(?i)\b(?:my|his|her|their|mi|su|[a-z]+'s) (?:\w+ )?(?:diagnosis|diagnostico"
    r"|medical (?:history|record)|historial medico|blood type|blood group|tipo de sangre"
    r"|grupo sanguineo|psychiatrist|therapist|psychologist|psiquiatra|psicolog[oa]|oncolog\w+"
    r"|medication|medicacion|prescription|cholesterol|colesterol|blood (?:pressure|sugar)"
    r"|tension arterial|surgery)\b",
    r"(?i)\bdiagnosis (?:is|was|of)\b|\bdiagnostico (?:es|fue|de)\b|\bdiagnosed with\b",
    r"(?i)\b(?:allergic to|allergy to|alergic[oa] a|alergia a(?:l)?|intolerant to|intolerante a)\b",
    r"(?i)\b(?:take|takes|taking|tomo|toma|prescribed|receto|recetaron)\b[^.\n]{0,40}\b\d+ ?(?:mg"
    r"|mcg|ug|iu)\b",
    r"(?i)\b(?:doctor|physician|psychiatrist|gp|medic[oa]|psiquiatra)\b(?: \w+){0,2} (?:prescribed"
    r"|receto|recetado|diagnosed|diagnostico)\b|\b(?:goe?s?|going|voy|va) (?:to|a) (?:la )?"
    r"(?:therapy|terapia|rehab)\b",
    r"(?i)\b(?:me|le) (?:operaron|operan|recetaron|ingresaron|extirparon)\b",
    r"(?i)\b(?:i|he|she|we|[a-z]+) (?:tested|gave|di|dio) (?:positive|positivo)\b",
    r"(?i)\b(?:tested positive|dio positivo|di positivo|baja por (?:depresion|enfermedad"
    r"|ansiedad))\b",
)
_SELF = (
    r"(?:(?:i am|i'm|(?:he|she|who|person|user|wife|husband|boss|son|daughter|brother|sister|mother"
    r"|father|colleague|friend) is|he's|she's|soy|(?:el|ella|jef[ea]|herman[oa]|hij[oa]|amig[oa]"
    r"|persona|usuari[oa]|companer[oa]|vecin[oa]) es))"
)
_BELIEF = (
    rf"(?i)\b{_SELF} (?:an? |un |una )?(?:\w+ )?(?:gay|lesbian\w*|bisexual|homosexual|heterosexual"
    r"|transgender|transexual|trans|muslim|musulman\w*|jewish|judi[oa]|catholic\w*|catolic[oa]|christian"
    r"|cristian[oa]"
    r"|hindu|sikh|orthodox|ortodox[oa]|agnostic[oa]?|buddhist|budista|atheist|ate[oa]|protestant\w*|evangelical|evangelic[oa]|mormon"
    r"|communist|comunista|socialist\w*|fascist\w*|republican[oa]?|democrat|conservative voter)\b",
    r"(?i)\b(?:vote[sd]?|vot[oae]|voting)(?: for| al?| por)?(?: the)? (?:labour|tor(?:y|ies)"
    r"|conservatives?"
    r"|republicans?|democrats?|greens|liberals?|psoe|pp|vox|podemos|sumar|trump|biden)\b",
    r"(?i)\b(?:my|his|her|mi|su) (?:religion|sexual orientation|orientacion sexual|faith|ethnicity"
    r"|etnia|criminal record|antecedentes penales|trade union|sindicato)\b",
)
_OWNED = r"(?i)\b(?:my|his|her|their|mi|su|[a-z]+'s)\b"
_NUMBER = r"\b(?:[a-z]{0,3}\d[\d ./-]{5,}\d\b|[a-z]{1,4}-?\d{5,}|\d{5,})"
_PRIVATE = (
    # The number of a document: its name next to its owner, and five digits or more.
    rf"{_OWNED}(?: \w+)? (?:passport|pasaporte|driv(?:ing|er'?s?) licen[cs]e|(?:carnet|permiso) de"
    r" (?:conducir|manejo)|licencia de conducir|tax (?:number|id|code)|numero (?:fiscal"
    r"|de (?:la )?seguridad social)|seguridad social|social security|national insurance"
    r"|identity card|id card|health (?:card|insurance)|tarjeta sanitaria)\b[^.\n]{0,24}?"
    rf"{_NUMBER}",
    r"(?i)\b(?:card|visa|mastercard|amex|tarjeta)\b(?: \w+){0,3}? (?:expir\w+|exp|valid|caduca"
    r"|vence)\b[^\d\n]{0,12}\d\d ?/ ?\d\d",
    rf"{_OWNED}(?: \w+)? (?:phone|mobile|cell|telephone|whatsapp|telefono|movil|celular)\b"
    r"[^\d\n]{0,24}\+?\d(?:[ ()/.-]*\d){6}",
    r"(?i)\b(?:call|text|ring|phone|reach) (?:me|him|her|us) (?:at|on)[^\d\n]{0,8}"
    r"\d(?:[ ()/.-]*\d){6}|\bllama(?:me|le|la)? (?:al|en el)[^\d\n]{0,8}\d(?:[ ()/.-]*\d){6}",
    rf"{_OWNED}(?: \w+)? (?:address|direccion|domicilio) (?:is|es|:)[^\n]{{0,40}}?"
    r"(?:\b\d+[a-z]?,? [a-z]{3,}|[a-z]{3,},? \d+\b)",
    r"(?i)\b(?:live[sd]?|vivo|vive|vivimos|viven) (?:at|on|en)\b[^\n]{0,24}?(?:\b\d+[a-z]?,?"
    r" (?:\w+ ){1,3}(?:street|st|road|rd|avenue|ave|lane|drive|square|court|way)\b"
    r"|\b(?:calle|avenida|avda|plaza|paseo|c/) ?[^\n]{2,40}?\d)",
)
"""Shapes of the numbers and addresses of people; a name or a town alone is none."""
_LONGEST = 4000


_compiled = cache(re.compile)
"""Patterns are compiled when there is something to remember that they are searched in."""


def personal_kind(statement: str) -> str | None:
    """Return the kind of sensitive statement this is ("health", "belief", "private"), or None.

    Looks at the first 4,000 characters; a statement to remember is far shorter.
    """
    spread = unicodedata.normalize("NFD", statement[:_LONGEST].replace("’", "'"))
    plain = " ".join("".join(one for one in spread if not unicodedata.combining(one)).split())
    if _found(_HEALTH, plain):
        return "health"
    # The long patterns hold this one, and few statements name a condition at all.
    if _found((f"(?i){_CONDITION}",), plain) and _found(_WITH_CONDITION, plain):
        return "health"
    if _found(_BELIEF, plain):
        return "belief"
    return "private" if _found(_PRIVATE, plain) else None


def _found(patterns: tuple[str, ...], text: str) -> bool:
    return any(_compiled(pattern).search(text) for pattern in patterns)
