"""Secrets in sentences, files, commands and logs, from a seed: the corpus to measure redaction.

Two lists of sentences share no wording: `SEEN` is what the shapes were written with in view,
`HELD_OUT` was written before them and only ever measured. A card, an account or an identity
number is made here with its own arithmetic, so that a mistake in the product's is noticed.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

_WORDS = (
    "girasol",
    "ventana",
    "murcielago",
    "tormenta",
    "canela",
    "abuelo",
    "bicicleta",
    "relampago",
    "cascabel",
    "mariposa",
    "pumpkin",
    "walnut",
    "thunder",
    "sailor",
    "copper",
    "lantern",
    "meadow",
    "biscuit",
    "falcon",
    "harbor",
    "velvet",
    "cactus",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A text that contains `secret`, and the kind of that value."""

    text: str
    secret: str
    kind: str


# --- the values ---


def _mixed(draw: Random) -> str:
    """Return a password as people make them: words, digits, signs."""
    one, two = draw.sample(_WORDS, 2)
    number = draw.randrange(10, 2030)
    return draw.choice(
        (
            f"{one.title()}{number}",
            f"{one}{number}{draw.choice('!#+*?')}",
            f"{one.title()}{draw.choice('_.-')}{two}{number}",
            f"{one[:3].upper()}{two[-3:]}{number}{draw.choice('!@%')}{draw.choice('xyzk')}",
            "".join(draw.choices(string.ascii_letters + string.digits, k=12)) + "7",
            f"{one.replace('o', '0').replace('a', '4')}{two.title()}",
        )
    )


def _worded(draw: Random) -> str:
    """Return a password of letters alone, as one is dictated."""
    one, two = draw.sample(_WORDS, 2)
    return draw.choice((f"{one}{two}", f"{one}-{two}", f"{one.title()}{two.title()}", one))


def _random(draw: Random) -> str:
    letters = string.ascii_letters + string.digits
    return "".join(draw.choices(letters, k=draw.choice((24, 32, 40)))) + "9aZ"


def _pin(draw: Random) -> str:
    return "".join(draw.choices(string.digits, k=draw.choice((4, 4, 6))))


def _cvv(draw: Random) -> str:
    return "".join(draw.choices(string.digits, k=draw.choice((3, 3, 4))))


def _luhn_digit(digits: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 - place % 2)
        total += value - 9 * (value > 9)
    return str(-total % 10)


def _card(draw: Random) -> str:
    prefix, size = draw.choice(
        (("4", 16), ("51", 16), ("55", 16), ("2221", 16), ("37", 15), ("6011", 16), ("3528", 16))
    )
    digits = prefix + "".join(draw.choices(string.digits, k=size - len(prefix) - 1))
    digits += _luhn_digit(digits)
    groups = (4, 6, 5) if size == 15 else (4, 4, 4, 4)
    return _grouped(digits, groups, draw.choice(("", " ", "-")))


def _grouped(digits: str, groups: Sequence[int], sign: str) -> str:
    parts, at = [], 0
    for size in groups:
        parts.append(digits[at : at + size])
        at += size
    return sign.join(parts)


def _iban(draw: Random) -> str:
    country, digits, letters = draw.choice(
        (
            ("ES", 20, ""),
            ("DE", 18, ""),
            ("FR", 23, ""),
            ("PT", 21, ""),
            ("GB", 14, "NWBK"),
            ("NL", 10, "INGB"),
            ("BE", 12, ""),
        )
    )
    account = letters + "".join(draw.choices(string.digits, k=digits))
    number = "".join(str(int(one, 36)) for one in f"{account}{country}00")
    whole = f"{country}{98 - int(number) % 97:02}{account}"
    if draw.random() < 0.5:
        return whole
    return " ".join(whole[at : at + 4] for at in range(0, len(whole), 4))


def _ssn(draw: Random) -> str:
    area = draw.choice([one for one in range(1, 900) if one != 666])
    return f"{area:03}-{draw.randrange(1, 100):02}-{draw.randrange(1, 10_000):04}"


def _dni(draw: Random) -> str:
    number = draw.randrange(10_000_000, 99_999_999)
    letter = "TRWAGMYFPDXBNJZSQVHLCKE"[number % 23]
    digits = f"{number:,}".replace(",", ".") if draw.random() < 0.25 else str(number)
    return digits + draw.choice(("", "", "-")) + letter


def _nie(draw: Random) -> str:
    first, number = draw.randrange(3), draw.randrange(1_000_000, 9_999_999)
    letter = "TRWAGMYFPDXBNJZSQVHLCKE"[int(f"{first}{number}") % 23]
    sign = draw.choice(("", "", "-"))
    return f"{'XYZ'[first]}{sign}{number}{sign}{letter}"


def _cpf(draw: Random) -> str:
    digits = [draw.randrange(10) for _ in range(9)]
    for _ in range(2):
        weights = range(len(digits) + 1, 1, -1)
        rest = sum(a * b for a, b in zip(digits, weights, strict=True)) * 10 % 11
        digits.append(rest % 10)
    one = "".join(map(str, digits))
    return f"{one[:3]}.{one[3:6]}.{one[6:9]}-{one[9:]}"


def _rut(draw: Random) -> str:
    number = draw.randrange(5_000_000, 26_000_000)
    total = sum(int(d) * (2 + i % 6) for i, d in enumerate(reversed(str(number))))
    check = "0K987654321"[total % 11]
    return f"{number:,}".replace(",", ".") + f"-{check}"


def _cuit(draw: Random) -> str:
    while True:
        digits = draw.choice(("20", "27", "23")) + f"{draw.randrange(10_000_000, 99_999_999)}"
        weights = (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)
        check = 11 - sum(int(a) * b for a, b in zip(digits, weights, strict=True)) % 11
        if check != 10:
            return f"{digits[:2]}-{digits[2:]}-{check % 11}"


def _key(draw: Random) -> str:
    letters = string.ascii_letters + string.digits
    prefix, size = draw.choice((("ghp_", 36), ("xoxb-8123456789-", 24), ("AKIA", 16), ("hf_", 34)))
    alphabet = string.ascii_uppercase + string.digits if prefix == "AKIA" else letters
    return prefix + "".join(draw.choices(alphabet, k=size))


MAKERS: dict[str, Callable[[Random], str]] = {
    "mixed": _mixed,
    "worded": _worded,
    "random": _random,
    "pin": _pin,
    "cvv": _cvv,
    "card": _card,
    "iban": _iban,
    "ssn": _ssn,
    "dni": _dni,
    "nie": _nie,
    "cpf": _cpf,
    "rut": _rut,
    "cuit": _cuit,
    "key": _key,
}

# --- their contexts: the kind of the value, then the text around it ---

HELD_OUT = """
mixed|Our guest network is called Heron and its password is {}
mixed|for the record, the wifi password at my mum's place is {}.
mixed|Please remember: the router's admin password is {}
mixed|you can log in as maria with password {} on the staging box
mixed|the root password of that VM is {}, don't lose it
mixed|I changed my email password to {} yesterday
mixed|use {} as the password when it asks
mixed|my password for github is {}
mixed|The passphrase of the backup disk is "{}"
mixed|db pass: {}
mixed|login: jorge / password: {}
mixed|user=jorge pass={}
mixed|username admin, password {}
mixed|the secret for the webhook is {}
mixed|My Netflix password: {} (shared with Leo)
mixed|La clave del router es {}
mixed|la contraseña de mi correo es {}
mixed|recuerda que la contraseña del servidor de pruebas es {}
mixed|Mi contraseña del banco es "{}", no la pierdas
mixed|la clave del wifi de la oficina: {}
mixed|usuario: pepe, contraseña: {}
mixed|entra con usuario pepe y contraseña {}
mixed|He cambiado la contraseña a {}
mixed|la contrasena del NAS es {}
mixed|CONTRASEÑA={}
mixed|CLAVE_BD={}
mixed|export DB_CLAVE="{}"
mixed|contraseña_smtp: {}
mixed|"clave": "{}",
mixed|"contraseña": "{}"
mixed|la frase de paso de mi clave ssh es {}
mixed|pon {} como contraseña del panel
worded|the wifi password is {}
worded|my laptop password is {}
worded|the password to the shared folder is {}, ok?
worded|la contraseña del wifi es {}
worded|mi clave de acceso es {}
worded|la contraseña de la cámara del salón es {}.
pin|My debit card PIN is {}
pin|the pin for the alarm is {}
pin|el PIN de mi tarjeta es {}
pin|el pin del móvil es {}
pin|the SIM's PIN code: {}
pin|PIN={}
pin|el código de la alarma es {}
pin|the door code is {}
cvv|cvv: {}
cvv|the security code on the back is {}
cvv|CVV2 {} exp 09/28
cvv|el código de seguridad de la tarjeta es {}
cvv|"cvc": "{}"
cvv|CVC={}
cvv|my card's CVV is {}
card|my card number is {}
card|Remember that I pay with {}
card|el número de mi tarjeta es {}
card|tarjeta: {} caducidad 11/27
card|"pan": "{}",
card|2026-03-04 10:22:11 INFO charge card={} amount=12.50
card|cc_number: {}
card|Visa {} exp 04/29 cvv 111
card|INSERT INTO payments (card, amount) VALUES ('{}', 20);
iban|transfer it to {} please
iban|mi IBAN es {}
iban|IBAN: {}
iban|"iban": "{}"
iban|account_iban={}
iban|la cuenta de la comunidad es {}, a nombre de Ana
ssn|my social security number is {}
ssn|SSN: {}
ssn|"ssn": "{}"
ssn|employee 4411 {} Boston
dni|mi DNI es {}
dni|DNI: {}
dni|con documento nacional de identidad {} y domicilio en Lugo
dni|"nif": "{}"
dni|el alumno Juan Ruiz, {}, aprobó
nie|mi NIE es {}
nie|nie={}
nie|residente con NIE {}.
cpf|meu CPF é {}
cpf|cpf: {}
rut|mi RUT es {}
rut|"rut": "{}"
cuit|CUIT {} responsable inscripto
mixed|DB_PASSWORD={}
mixed|export ADMIN_PASS='{}'
mixed|REDIS_URL=redis://:{}@cache:6379/0
mixed|mysql://app:{}@10.0.0.4:3306/shop
mixed|  password: {}
mixed|    db_password: "{}"
mixed|"password": "{}",
mixed|{{"user":"leo","passwd":"{}"}}
mixed|curl -u leo:{} https://api.example.org/v1/me
mixed|curl -d "user=leo&password={}" https://example.org/login
mixed|mysqldump -uroot -p{} shop > shop.sql
mixed|sshpass -p '{}' ssh leo@host
mixed|CREATE USER leo IDENTIFIED BY '{}';
mixed|ALTER ROLE leo WITH PASSWORD '{}';
mixed|docker run -e POSTGRES_PASSWORD={} postgres:16
mixed|kubectl create secret generic db --from-literal=password={}
mixed|echo "leo:{}" | chpasswd
mixed|useradd -p {} leo
mixed|spring.datasource.password={}
mixed|<add key="SmtpPassword" value="{}" />
mixed|<password>{}</password>
mixed|Server=db;Database=x;User Id=sa;Pwd={};
mixed|ftp://leo:{}@files.example.net/in
mixed|net use Z: \\\\nas\\data /user:leo {}
mixed|PGPASSWORD={} psql -h db -U app
mixed|zip -P {} out.zip notes.txt
mixed|openssl pkcs12 -export -passout pass:{} -in c.pem
mixed|ansible-vault: vault_password = "{}"
mixed|smtp_pass = {}
mixed|psk="{}"
mixed|nmcli dev wifi connect Heron password {}
mixed|POST /login username=leo&pass={} 200
mixed|[auth] login failed for leo with password '{}'
mixed|hunter.login(user="leo", password="{}")
mixed|const password = '{}';
mixed|$wgDBpassword = "{}";
mixed|7z x -p{} backup.7z
random|API_TOKEN={}
random|api_key: {}
random|"access_token": "{}"
random|Authorization: Bearer {}
random|curl -H "X-Auth-Token: {}" https://api.example.org
random|https://example.org/cb?access_token={}&state=1
random|client_secret={}
random|token = "{}"
random|my API key for the weather service is {}
random|la clave de la API es {}
random|el token de acceso es {}
random|the token is {}
random|here is the api token: {}
random|SECRET_KEY = '{}'
random|aws_session_token={}
random|_authToken={}
key|export K={}
key|pushed with {} by mistake
key|mi token es {}
key|headers = {{"x": "{}"}}
"""

SEEN = """
mixed|hey, our WLAN password is {} now
mixed|the password for the printer is {}
mixed|my pass is {}
mixed|set the password to {}
mixed|Its passphrase is {}
mixed|credentials are leo / {}
mixed|the login is admin and the password is {}
mixed|with user ana and password {}
mixed|log in as root, password {}
mixed|password of my bank: {}
mixed|my old password was {}
mixed|La contraseña es {}
mixed|su contraseña es "{}"
mixed|la clave de mi portátil es {}
mixed|la contraseña para entrar es: {}
mixed|mi clave es {}
mixed|con contraseña {} entra cualquiera
mixed|pon de contraseña {}
mixed|Contraseña: {}
mixed|CONTRASENA={}
mixed|CLAVE={}
mixed|"contrasena": "{}"
mixed|clave_secreta = "{}"
worded|the wifi key is {}
worded|my password is {}
worded|la contraseña es {}
worded|la clave del wifi es {}
worded|the passphrase is {}
pin|the PIN of my card is {}
pin|my pin is {}
pin|mi PIN es {}
pin|el pin de la tarjeta: {}
pin|card pin: {}
pin|el código PIN es {}
cvv|the CVV is {}
cvv|cvc {}
cvv|mi CVV es {}
cvv|cvv={}
cvv|security code: {}
cvv|"cvv": {},
card|my card is {}
card|Remember that my credit card is {}
card|mi tarjeta de crédito es {}
card|card_number={}
card|{}
card|paid with {} today
iban|my bank account is {}
iban|mi cuenta es {}
iban|{}
iban|iban={}
ssn|my SSN is {}
ssn|{}
dni|mi documento es {}
dni|{}
dni|dni={}
nie|{}
nie|su NIE: {}
cpf|{}
rut|RUT {}
cuit|{}
mixed|APP_PASSWORD={}
mixed|passwd: {}
mixed|'password': '{}'
mixed|postgres://app:{}@db/shop
mixed|identified by '{}'
mixed|mysql -u root -p{}
mixed|--password {}
mixed|password={}&next=/
mixed|SET PASSWORD = '{}';
mixed|chpasswd <<< "leo:{}"
mixed|unzip -P {} a.zip
mixed|wifi.psk={}
mixed|pwd={}
mixed|-passin pass:{}
random|X-Api-Key: {}
random|secret={}
random|my token is {}
random|mi clave de API es {}
random|"api_token": "{}"
random|bearer {}
key|my key is {}
key|{}
"""


def samples(sentences: str, *, seed: int, each: int) -> Iterator[Sample]:
    """Yield `each` samples of every sentence of `sentences`, with values drawn from `seed`."""
    draw = Random(seed)
    for line in sentences.strip().splitlines():
        kind, _, text = line.partition("|")
        for _ in range(each):
            value = MAKERS[kind](draw)
            yield Sample(text.format(value), value, kind)
