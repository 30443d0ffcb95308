"""The shapes of secrets: one table of vendor tokens, and the contexts that make a value secret.

Each shape comes from what its vendor documents or visibly issues. Only the secret part is
matched, so what stays readable (names, hosts, users) stays readable after redaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

# kind, how it starts, pattern. All are tried at a word's start, in this order.
_VENDOR_TOKENS: tuple[tuple[str, str, str], ...] = (
    ("aws_key", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    (
        "github_token",
        "gh github_pat_",
        r"gh[pousr]_[A-Za-z0-9_]{20,255}|github_pat_[A-Za-z0-9_]{20,255}",
    ),
    (
        "gitlab_token",
        "gl",
        r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[\w.-]{16,}",
    ),
    (
        "slack_token",
        "xox xapp-",
        r"xox[a-z]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,}|xoxe\.xox[bp]-[\w-]{20,}",
    ),
    (
        "stripe_key",
        "sk_ rk_ whsec_",
        r"[sr]k_(?:live|test|prod)_[0-9a-zA-Z]{10,}|whsec_[A-Za-z0-9+/=]{16,}",
    ),
    ("anthropic_key", "sk-", r"sk-ant-[\w-]{16,}"),
    ("openai_key", "sk-", r"sk-(?:proj|svcacct|admin|None|or-v1|lf|helicone)-[\w-]{16,}"),
    (
        "api_key",
        "sk- sk_",
        r"sk-(?=[A-Za-z_]{0,40}\d)[A-Za-z0-9_]{20,}|sk_[a-f0-9]{40,}",
    ),
    (
        "google_key",
        "AIza GOCSPX- AQ.",
        r"AIza[0-9A-Za-z_-]{30,}|GOCSPX-[\w-]{20,}|AQ\.Ab8R[\w-]{30,}",
    ),
    ("firebase_key", "AAAA", r"AAAA[\w-]{7}:APA91b[\w-]{100,}"),
    ("bedrock_key", "ABSK", r"ABSK[A-Za-z0-9+/]{100,}={0,2}"),
    ("google_token", "ya29. 1//0", r"ya29\.[0-9A-Za-z_-]{20,}|1//0[A-Za-z0-9_-]{30,}"),
    ("jwt", "eyJ", r"(?<!-)eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*(?:\.[\w-]+){0,2}"),
    ("npm_token", "npm_", r"npm_[A-Za-z0-9]{30,}"),
    ("pypi_token", "pypi-", r"pypi-[A-Za-z0-9_-]{16,}"),
    ("huggingface_token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{28,}"),
    ("twilio_key", "SK AC", r"(?:SK|AC)[0-9a-f]{32}(?::[0-9a-f]{32})?\b"),
    ("sendgrid_key", "SG.", r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    ("mailgun_key", "key-", r"key-[0-9a-z]{32}\b"),
    ("digitalocean_token", "do", r"do[opr]_v1_[a-f0-9]{40,}"),
    ("shopify_token", "shp", r"shp(?:at|ca|pa|ss|ua)_[a-fA-F0-9]{32}"),
    ("square_token", "sq0 EAAA", r"sq0[a-z]{3}-[\w-]{22,}|EAAA[\w-]{56,}"),
    ("databricks_token", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?\b"),
    ("docker_token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{20,}"),
    ("heroku_key", "HRKU-", r"HRKU-[\w-]{30,}"),
    ("vault_token", "hvs. hvb. hvr.", r"hv[sbr]\.[\w-]{20,}"),
    ("linear_key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}"),
    ("notion_token", "secret_ ntn_", r"(?:secret|ntn)_[A-Za-z0-9]{40,}"),
    (
        "model_provider_key",
        "gsk_ xai- r8_ pplx- fw_ tgp_v1_ nvapi- csk- jina_ wandb_ pcsk_ tvly- pa- e2b_ fc- BSA"
        " ak- as-",
        r"(?:gsk_|xai-|r8_|pplx-|fw_|tgp_v1_|nvapi-|csk-|jina_|wandb_v1_|pcsk_"
        r"|tvly-(?:dev-)?)[\w-]{24,}"
        r"|pa-[\w-]{43}(?![\w-])|e2b_[a-f0-9]{40}|fc-[a-f0-9]{32}\b|BSA(?=[\w-]{0,27}\d)[\w-]{28}\b"
        r"|a[ks]-(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{22}\b",
    ),
    (
        "hosting_token",
        "vercel_ vc nf rnd_ cf napi_",
        r"vercel_blob_rw_\w{16,}|(?:vc[pkairc]|nf[pkcub]|rnd|cfut|cfat|cfk)_[A-Za-z0-9]{28,}"
        r"|napi_[a-z0-9]{40,}",
    ),
    (
        "monitoring_key",
        "hc ph dt0 sq sdk- api- mob-",
        r"hc[ablmx]ik_[a-z0-9]{50,}|ph[xs]_[A-Za-z0-9]{30,}"
        r"|dt0[cs]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{50,}"
        r"|sq[upa]_[a-f0-9]{40}\b|(?:sdk|api|mob)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    ),
    (
        "mail_key",
        "re_ xkeysib-",
        r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}|xkeysib-[a-f0-9]{60,}-\w{10,}"
        r"|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b",
    ),
    (
        "package_token",
        "AKCp cmVmdGtu CLOJARS_",
        r"AKCp[A-Za-z0-9]{60,}|cmVmdGtu[A-Za-z0-9+/=]{50,}|CLOJARS_[a-f0-9]{50,}",
    ),
    ("hubspot_token", "pat-", r"pat-(?:na|eu|ap)\d-[0-9a-f-]{36}\b"),
    ("mapbox_token", "sk.", r"sk\.eyJ[\w-]{30,}\.[\w-]{16,}"),
    ("okta_token", "SSWS", r"SSWS 00[\w-]{38,}"),
    ("infisical_token", "st.", r"st\.[0-9a-f]{8,}(?:[0-9a-f-]*\.[0-9a-f]{32}){1,2}"),
    (
        "braintree_token",
        "access_token$",
        r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
    ),
    (
        "private_key_encoded",
        "LS0tLS1CRUdJTi",
        # Base64 of what begins a private key's file; a certificate's begins otherwise.
        r"LS0tLS1CRUdJTi(?:BSU0EgUFJJVkFURS|BQUklWQVRF|BFQyBQUklWQVRF|BPUEVOU1NIIFBSSVZBVE"
        r"|BFTkNSWVBURUQgUFJJ)"
        r"[A-Za-z0-9+/]{16,}={0,2}",
    ),
    ("grafana_token", "gl", r"gl(?:sa|c)_[A-Za-z0-9_+/=]{30,}"),
    ("newrelic_key", "NR", r"NR(?:AK|JS|II)-[A-Za-z0-9-]{20,}"),
    ("sentry_token", "sntry", r"sntry[su]_[A-Za-z0-9_=+/-]{30,}"),
    ("airtable_token", "pat", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{60,}"),
    ("figma_token", "figd_", r"figd_[\w-]{30,}"),
    ("postman_key", "PMAK-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{30,}"),
    ("doppler_token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{30,}"),
    ("planetscale_token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.-]{30,}"),
    ("supabase_key", "sbp_ sb_secret_", r"sbp_[a-f0-9]{40}|sb_secret_[\w-]{20,}"),
    ("age_key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{40,}"),
    ("rubygems_key", "rubygems_", r"rubygems_[a-f0-9]{40,}"),
    ("crates_token", "cio", r"cio[A-Za-z0-9]{32}\b"),
    ("nuget_key", "oy2", r"oy2[a-z0-9]{43}\b"),
    ("pulumi_token", "pul-", r"pul-[a-f0-9]{40}\b"),
    ("atlassian_token", "AT", r"AT(?:ATT|CTT)3[\w=+/-]{50,}|ATBB[A-Za-z0-9]{28,}"),
    ("onepassword_token", "ops_", r"ops_eyJ[\w+/=-]{30,}"),
    ("langsmith_key", "lsv2_", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    ("tailscale_key", "tskey-", r"tskey-[a-z]+-[\w-]{16,}"),
    ("telegram_token", "", r"\d{8,10}:AA[\w-]{32,}"),
    ("discord_token", "", r"[MNO][A-Za-z\d_-]{23,27}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,}"),
    ("facebook_token", "EAA", r"EAA[A-Za-z0-9]{80,}"),
    ("dropbox_token", "sl.", r"sl\.[\w-]{100,}"),
    ("alibaba_key", "LTAI", r"LTAI[A-Za-z0-9]{16,24}\b"),
    ("private_key_hex", "xprv", r"xprv[1-9A-HJ-NP-Za-km-z]{100,}"),
    ("fly_token", "FlyV1 fm1 fm2 fo1_", r"(?:FlyV1 )?fm[12][ar]?_[\w+/=,-]{60,}|fo1_[\w-]{40,}"),
    ("contentful_token", "CFPAT-", r"CFPAT-[\w-]{40,}"),
    ("buildkite_token", "bk", r"bk(?:ua|aj|et)_[a-z0-9]{30,}"),
    ("circleci_token", "CCIPAT_", r"CCIPAT_[\w]{20,}"),
    ("clickup_token", "pk_", r"pk_\d{6,}_[A-Z0-9]{30,}"),
    ("asana_token", "1/ 2/", r"[12]/\d{12,}(?:/\d{12,})?:[a-f0-9]{30,}"),
)

VENDOR = re.compile(
    r"(?<![A-Za-z0-9_])(?=[A-Za-z0-9])(?:"
    + "|".join(f"(?P<{k}>{p})" for k, _, p in _VENDOR_TOKENS)
    + ")"
)
"""The tokens themselves, for `match` where one may start."""


def _starts() -> Iterator[str]:
    """One alternative a first letter: a search skips to it, then looks back past it."""
    words = sorted({word for _, starts, _ in _VENDOR_TOKENS for word in starts.split()})
    for letter, same in groupby(words, key=lambda word: word[0]):
        rests = "|".join(re.escape(word[1:]) for word in same)
        yield f"{letter}(?<![A-Za-z0-9_].)(?:{rests})"


VENDOR_STARTS = (
    re.compile("|".join(_starts())),
    re.compile(
        r"[0-9a-fMNO](?<![A-Za-z0-9_].)"
        r"(?:[0-9a-f]{31}-|(?<=[MNO])[A-Za-z\d_-]{23,27}\.|\d{7,9}:AA)"
    ),
)
"""Where a vendor's token may start: far quicker than trying every shape at every word."""

_PEM = (
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"(?P<s>(?:\r?\n[A-Za-z0-9+/=]{1,64}){1,2}\r?\n(?=-{4,5} ?END )"
    r"|(?:\s{0,4}[A-Z][\w-]{2,20}: [^\n]{0,200}(?=\n)){0,6}(?=[^-]{0,200}[A-Za-z0-9+/]{16})"
    r"[^-]{16,20000}(?:-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5})?)"
)
_LINE = r"[^\n|;]{0,200}?"
_QUOTE = r"[\"']?"
_SECRET_FLAG = (
    r"(?:[a-z-]{0,30}(?:password|passwd|passphrase|secret|token|api-?key|access-key"
    r"|secret-key|auth-?key|private-key|storepass|keypass))"
)
_SECRET_PARAMETER = (
    r"(?:access_token|api_?key|key|token|sig|signature|auth|password|secret|client_secret"
    r"|x-amz-signature|x-amz-security-token|x-goog-signature|code)"
)
_SESSION = (
    r"(?:[a-z_.-]{0,20}sess(?:ion)?_?(?:id|key|token)?|phpsessid|jsessionid|connect\.sid"
    r"|csrf_?token|xsrf-token|remember_token|refresh_token|id_token)"
)

_BETWEEN = r"(?:[ \t]+(?!(?:is|es|era|was)\b)[^\s\d.;:=!?,\"]{1,20}){0,6}?"
_IS = rf"{_QUOTE}\s{{0,3}}(?:(?:is|es|era|was)\b(?: el| la| the)?|[:=#-])?\s{{0,3}}{_QUOTE}"
_IS_SAID = (
    rf"{_QUOTE}\s{{0,3}}(?:(?:is|es|era|was)(?: now| ahora| el| la| the)?:?(?= )|:)"
    rf"\s{{0,3}}{_QUOTE}"
)

# kind, lower-case words one of which must occur, pattern with the secret in group s.
_CONTEXTS: tuple[tuple[str, str, str], ...] = (
    ("private_key", "private key", _PEM),
    (
        "private_key_lines",
        "private-lines",
        r"(?im)^private-lines: \d+(?P<s>(?:\s+[A-Za-z0-9+/=]+$)+)",
    ),
    (
        "seed_phrase",
        "mnemonic phrase",
        r"(?i)\b(?:mnemonic|(?:seed|recovery)[_ -]?phrase)[\"']?\s?[:=]\s?[\"']?"
        r"(?P<s>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b",
    ),
    (
        "xml",
        "value=",
        r"(?i)\b(?:key|name)=[\"'][\w.:-]{0,40}(?:password|passwd|secret|token|api[-_]?key)[\"']"
        r"\s+value=[\"'](?P<s>[^\s\"'$<{]{6,})",
    ),
    (
        "shell_variable",
        "set",
        r"(?im)^\s*set\s+(?:-\w+\s+){1,4}\w*(?:password|passwd|secret|token|api_?key)\w*\s+"
        r"[\"']?(?P<s>[^\s\"'$(/~][^\s\"']{5,})",
    ),
    (
        "node_url",
        "infura.io alchemy.com quiknode.pro",
        r"(?:infura\.io/(?:ws/)?v3|alchemy\.com/v2|quiknode\.pro)/(?P<s>[\w-]{30,64})",
    ),
    (
        "app_password",
        "password",
        r"(?i)\bapp[ -]?password\s?[:=]?\s(?P<s>(?:[a-z0-9]{4} ){3}[a-z0-9]{4})\b",
    ),
    ("device_password", "password secret", r"\b(?:password|secret) [4-9] (?P<s>[^\s\"']{8,})"),
    ("slack_webhook", "hooks.slack", r"hooks\.slack\.com/[a-z]{8,9}/(?P<s>[\w/-]{20,200})"),
    ("discord_webhook", "webhooks/", r"discord(?:app)?\.com/api/webhooks/(?P<s>\d+/[\w-]{20,})"),
    ("teams_webhook", "webhookb2", r"webhook\.office\.com/webhookb2/(?P<s>[\w@/-]{30,})"),
    ("mailchimp_key", "-us", r"\b(?P<s>[0-9a-f]{32}-us\d{1,2})\b"),
    ("terraform_token", ".atlasv1.", r"\b(?P<s>[A-Za-z0-9]{14}\.atlasv1\.[\w-]{50,})"),
    ("azure_secret", "8q~", r"(?<![\w~.-])(?P<s>[\w~.-]{3}8Q~[\w~.-]{31,34})"),
    (
        "authorization",
        "authorization",
        rf"(?i)\b(?:proxy-)?authorization{_QUOTE}\s?[:=]\s?{_QUOTE}"
        r"(?:(?:bearer|basic|token|digest|apikey|negotiate|bot|ssws|aws4-hmac-sha256) )?"
        r"(?P<s>[^\s\"'$<{*][^\s\"',}]{5,}(?:,? ?\w+=[^\s\"']+){0,20})",
    ),
    ("bearer", "bearer basic", r"(?i)\b(?:bearer|basic)\s(?P<s>(?=\S*[0-9=._])[\w.~+/-]{16,}=*)"),
    (
        "header_key",
        "x- key: token:",
        r"(?i)\b(?:x-[a-z0-9-]{0,30}(?:key|token|secret|auth)|api-?key|[a-z]{2,12}-token)"
        rf"{_QUOTE}\s?:\s?{_QUOTE}(?P<s>[^\s\"'$<{{*][^\s\"',}}]{{7,}})",
    ),
    (
        "cookie",
        "cookie",
        rf"(?i)\b(?:set-)?cookie{_QUOTE}\s?:\s?{_QUOTE}(?P<s>[\w.-]{{1,80}}=[^\"'\r\n]{{6,}})",
    ),
    (
        "session",
        "sess _token= token= sid=",
        rf"(?i)(?<![a-z_.-]){_SESSION}=(?P<s>(?=[^\s;\"'&]{{0,40}}\d)[^\s;\"'&$<{{]{{12,}})",
    ),
    (
        "url_password",
        "://",
        r"(?<=://)[^\s/?#\"'<>:@]{0,80}:"
        r"(?P<s>[^\s/\"'<>$@{*][^\s/\"'<>@]{0,200}(?:/[^\s/\"'<>@]{1,100})?)@(?=[\w.\[-])",
    ),
    ("url_token", "://", r"(?<=://)(?P<s>[\w-]{20,200})@(?=[\w.-])"),
    (
        "url_parameter",
        "? &",
        rf"(?i)[?&]{_SECRET_PARAMETER}=(?P<s>(?=[^\s&\"']{{0,40}}\d)[\w%.~+/=-]{{16,}})",
    ),
    (
        "azure_key",
        "key= value=",
        r"(?i)\b(?:AccountKey|SharedAccessKey|SharedSecretValue)=(?P<s>[A-Za-z0-9+/=]{20,})",
    ),
    ("azure_sas", "sig=", r"\bsig=(?P<s>[A-Za-z0-9%+/]{30,}(?:=|%3D)*)"),
    (
        "netrc",
        "login",
        r"(?i)\b(?:machine\s+\S{1,80}|default)\s+login\s+\S{1,80}\s+password\s+(?P<s>\S+)",
    ),
    ("netrc", "password", r"(?im)^[ \t]{0,8}password[ \t]+(?P<s>(?=\S*[\d\W_])\S{6,})[ \t]*$"),
    (
        "pgpass",
        ":",
        r"(?m)^[\w.*-]{1,80}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:(?P<s>[^\s:]{4,})$",
    ),
    (
        "curl_user",
        "curl",
        rf"\bcurl\b{_LINE}\s(?:-u|--user|-U|--proxy-user)[ =]?"
        r"[\"']?[^\s:\"']{1,80}:(?P<s>[^\s\"'$]+)",
    ),
    (
        "mysql_password",
        "mysql mariadb",
        rf"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b{_LINE}\s-p(?P<s>[^\s\"'$-]\S{{3,}})",
    ),
    (
        "xml",
        "</",
        r"(?i)<(?:[\w.:-]{0,30}(?:password|passwd|passphrase|secret|token|api[-_]?key))>"
        r"(?P<s>[^\s<>$*{][^\s<>]{3,200})</",
    ),
    (
        "docker_auth",
        "auth",
        r"\"auth\"\s?:\s?\"(?P<s>(?=[^\"]{0,200}[\d=])(?:[A-Za-z0-9+/]{4}){3,}"
        r"(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)\"",
    ),
    (
        "defined_password",
        "define(",
        r"(?i)\bdefine\(\s?[\"'][\w-]{0,40}(?:password|secret|token|_key|_salt)[\"']\s?,\s?"
        r"[\"'](?P<s>[^\"'\r\n]{4,200})[\"']",
    ),
    ("telegram_token", "/bot", r"/bot(?P<s>\d{8,10}:AA[\w-]{32,})"),
    (
        "typed_password",
        "sudo",
        r"\becho\s+(?:-n\s+)?[\"']?(?P<s>[^\s\"'$|;&]{4,})[\"']?\s*\|\s*sudo\s(?:-\w+\s)*?-\w*S",
    ),
    (
        "card_code",
        "cvv cvc cv2 code código codigo verifica",
        r"(?i)\b(?:cvv2?|cvc2?|cv2|security code|verification (?:code|value)"
        r"|c[óo]digo de (?:seguridad|verificaci[óo]n))\b"
        rf"{_BETWEEN}{_IS}(?P<s>\d{{3,4}})(?![\w.:%-]|,\d)",
    ),
    (
        "pin",
        "pin puk",
        r"(?i)(?<![\w-])(?:pin|puk)2?(?: (?:code|number))?\b"
        rf"(?:{_BETWEEN}{_IS_SAID}|{_QUOTE}\s?=\s?{_QUOTE})(?P<s>\d{{4,8}})(?![\w.:%-]|,\d)",
    ),
    (
        "door_code",
        "code código codigo combina clave otp",
        r"(?i)\b(?:(?:door|alarm|gate|entry|safe|lock|locker|unlock|garage|vault|access|recovery"
        r"|backup"
        r"|verification|confirmation|one-time|2fa|mfa|otp) codes?|combination|otp"
        r"|(?:c[óo]digo|clave|combinaci[óo]n)(?: de| del)?(?: (?:el|la|mi|su|un))? (?:alarma|puerta"
        r"|portal|acceso|desbloqueo|caja(?: fuerte)?|garaje|candado|taquilla|m[óo]vil|tel[ée]fono"
        r"|tarjeta|verificaci[óo]n|recuperaci[óo]n|respaldo|confirmaci[óo]n|solo uso))\b"
        rf"{_BETWEEN}{_IS_SAID}(?P<s>\d{{4}}[ -]\d{{4}}|\d{{1,2}}(?:-\d{{1,2}}){{2,3}}|\d{{4,10}})"
        r"(?![\w.:%-]|,\d)",
    ),
    (
        "account_number",
        "account cuenta routing",
        r"(?i)\b(?:(?:bank )?account (?:number|no\.?)|(?:n[úu]mero de )?cuenta(?: bancaria"
        r"| corriente)?"
        r"|routing(?: number)?)\b"
        rf"{_BETWEEN}{_IS}(?P<s>\d(?:[ -]?\d){{8,19}})(?![\w.:%-]|,\d)",
    ),
    (
        "identity_number",
        "social ssn dni nif nie passport pasaporte rut pesel bsn aadhaar insurance steuer nino curp"
        " cpf",
        r"(?i)\b(?:social security(?: number| no\.?)?|ssn|national insurance(?: number)?|nino|dni"
        r"|nif|nie"
        r"|passport(?: number| no\.?)|(?:n[úu]mero de )?pasaporte|rut|pesel|bsn|aadhaar(?: number)?"
        r"|steuer-?id|curp|cpf|n[úu]mero de la seguridad social)\b"
        rf"{_BETWEEN}{_IS}(?P<s>(?=(?:[^\d\n]{{0,3}}\d){{6}})[A-Z]{{0,3}}[\d .-]{{5,14}}\d["
        rf" -]?[A-Z]?)(?!\w)",
    ),
    (
        "program_password",
        "redis-cli",
        rf"\bredis-cli\b{_LINE}\s-a\s?[\"']?(?P<s>[^\s\"'$-][^\s\"']{{3,}})",
    ),
    (
        "program_password",
        "htpasswd",
        r"\bhtpasswd\s-\w*b\w*\s\S+\s\S+\s[\"']?(?P<s>[^\s\"'$]{4,})",
    ),
    (
        "program_password",
        "zip 7z",
        rf"\b(?:un)?zip\b{_LINE}\s-P\s?[\"']?(?P<s>[^\s\"'$-]\S{{3,}})",
    ),
    ("program_password", "7z", rf"\b7z[ar]?\b{_LINE}\s-p(?P<s>[^\s\"'$-]\S{{3,}})"),
    ("program_password", "pass:", r"\bpass(?:in|out)?[ =]pass:(?P<s>[^\s\"'$]{4,})"),
    (
        "program_password",
        "chpasswd",
        r"\becho\s+(?:-\w\s+)?[\"']?[\w.-]{1,40}:(?P<s>[^\s\"'$|;&]{4,})[\"']?\s*\|\s*(?:sudo\s+)?chpasswd",
    ),
    (
        "program_password",
        "chpasswd",
        r"\bchpasswd\b[^\n<]{0,40}<<<\s*[\"']?[\w.-]{1,40}:(?P<s>[^\s\"'$]{4,})",
    ),
    (
        "program_password",
        "useradd usermod",
        rf"\buser(?:add|mod)\b{_LINE}\s(?:-p|--password)[ =][\"']?(?P<s>[^\s\"'$-]\S{{3,}})",
    ),
    (
        "sql_password",
        "identified password",
        r"(?i)\b(?:identified(?: with \w{1,40})? by|with(?: encrypted)? password"
        r"|user \S{1,60} password"
        r"|set password(?: for [^\n=]{1,80})?\s?=)\s+(?:password\()?'(?P<s>[^'\r\n]{4,200})'",
    ),
    (
        "credentials",
        "credential credencial login usuario user",
        r"(?i)\b(?:credentials?|credenciales|login|user(?:name)?|usuario)\b(?:\s(?:are|is|son"
        r"|es))?\s?:?\s"
        r"[\w.@-]{1,40}\s?/\s?(?P<s>(?=[^\s/]{0,40}\d)(?=[^\s/]{0,40}[A-Za-z])[^\s/\"']{6,60})(?![\w/])",
    ),
    ("program_password", "openssl", rf"\bopenssl\b{_LINE}\s-k\s[\"']?(?P<s>[^\s\"'$]{{4,}})"),
    ("program_password", "/user:", r"\s/user:\S+\s(?P<s>[^\s\"'$/*]{4,})"),
    (
        "docker_env",
        "env arg",
        r"(?im)^\s*(?:ENV|ARG)\s+\w*(?:password|passwd|secret|token|api_?key|secret_key)\w*\s+"
        r"[\"']?(?P<s>[^\s\"'$<{=]{6,})",
    ),
    ("sshpass", "sshpass", r"\bsshpass\s+-p\s?[\"']?(?P<s>[^\s\"'$]+)"),
    (
        "flag",
        "-",
        rf"(?i)(?<![\w-])--?{_SECRET_FLAG}(?:=|\s+)[\"']?(?P<s>[^\s\"'$<{{*-][^\s\"']{{5,}})",
    ),
    (
        "login_flag",
        "login",
        rf"\b(?:docker|podman|helm|az|oc|skopeo)\b{_LINE}\blogin\b{_LINE}"
        r"\s-p[ =]?[\"']?(?P<s>[^\s\"'$-][^\s\"']{4,})",
    ),
    (
        "password_hash",
        "$",
        r"(?P<s>\$(?:1|5|6|y|7|2[abxy]|argon2(?:id|i|d)|apr1|scrypt"
        r"|pbkdf2[\w-]{0,20})\$[^\s:\"']{16,})",
    ),
    ("wireguard_key", "key", r"(?i)\b(?:Private|Preshared)Key\s?=\s?(?P<s>[A-Za-z0-9+/]{42,43}=)"),
    (
        "aws_secret",
        "aws",
        r"(?i)aws.{0,20}?(?:secret|sk).{0,20}?[\s:=\"'](?P<s>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    (
        "connection_password",
        "password= pwd=",
        r"(?i);\s?(?:password|pwd)=(?P<s>[^\s;\"'$<{*][^;\"'\r\n]{3,}?)(?=;|[\"']|$)",
    ),
)

CONTEXTS = tuple(
    (kind, ("private key",) if kind == "private_key" else tuple(words.split()), re.compile(pattern))
    for kind, words, pattern in _CONTEXTS
)
"""What makes a value secret by what stands round it: kind, words to look for first, pattern."""

SURE = frozenset({"private_key", "slack_webhook", "discord_webhook", "password_hash", "aws_secret"})
"""Contexts so particular that a value looking like a placeholder is still hidden."""

STRONG = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)?|pwd|(?:\b|_)pw|secret|(?:api|secret|access|private|auth|master"
    r"|encryption|signing"
    r"|account|storage|shared|service|license|deploy|app|webhook|session|hmac|jwt|consumer|client)"
    r"[_-]?key|credentials?|auth[_-]?token|access[_-]?token|refresh[_-]?token|bearer[_-]?token"
    r"|api[_-]?token|bot[_-]?token|client[_-]?secret|_authtoken|_auth|_password|salt"
    r"|pin(?:code)?|seed[_-]?phrase|dsn|(?:\b|_)psk|contrase(?:ñ|n\u0303?)a(?:[_-]\w{1,20})?"
    r"|(?:^|[_.-])clave[_-](?:secreta|privada|maestra|api)|cvv2?|cvc2?)$"
)
WEAK = re.compile(
    r"(?i)(?:token|auth|key|keys|apikey|sid|cookie|session|credential|nonce|signature|secret\w*"
    r"|_pat)$"
)
KEY_OR_PASSWORD = re.compile(r"(?i)(?:^|[_.-])clave(?:[_-]\w{1,20})?$")
"""Names that mean a password as often as the key of a table."""
NOT_SECRET = re.compile(
    r"(?i)(?:public|publishable|primary|foreign|cache|sort|partition|hash|object|map|unique|index"
    r"|group"
    r"|row|translation"
    r"|registry|idempotency|page|next|continuation|hot|short|storage_class|lookup|dict|s3"
    r"|bucket|fingerprint)"
    r"[_.-]?(?:key|keys|token|id)$|(?:max|min|num|total|input|output|prompt|completion"
    r"|cached)[_-]?tokens?$"
    r"|tokens$|secretsmanager$|monkey$|turkey$|hockey$|keybinding|^(?:key|keys|auth|sid|pin|salt"
    r"|session"
    r"|signature|nonce)$"
)
HOT = re.compile(
    r"(?i)pass|pwd|pw\b|secret|key|token|auth|cred|salt|pin|dsn|cookie|sess|sid|nonce|sign|seed"
    r"|_pat"
    r"|psk|contrase|clave"
)
OPERATOR = re.compile(r"=>|:=|==|[=:]")
NAME_REVERSED = re.compile(
    r"[ \t]{0,20}[\"'`]?\\?(?:\][\"'\w]{1,30}\[)?(?P<eman>[\w.-]{0,60}[A-Za-z_$])"
)
"""Matches the reversed text before an operator: matching backwards keeps the search linear."""
VALUE_AFTER = re.compile(
    r"[ \t]{0,20}(?:(?P<q>\\?[\"'`])(?P<quoted>[^\"'`\r\n]{3,4000}?)(?P=q)"
    r"|(?P<open>[^\s\"'`,;&|<>(){}\[\]]{4,4000})(?P<after>[(\[]?))"
)

_WORDS = (
    "true|false|null|none|nil|undefined|yes|no|on|off|required|optional|string|str|int|integer|bool"
    "|boolean|text|password|passwd|secret|token|key|value|default|empty|unset|hidden|masked"
    "|redacted|removed"
    "|changeme|change_me|change-me|replaceme|todo|fixme|tbd|n/a|example|sample|test|dummy"
    "|fake|foo|bar|foobar"
    "|placeholder|insert|username|user|admin|root|localhost|env|environ|vault|prompt|stdin"
    "|file|keyring"
    "|type|name|self|this|any|object|function|expired|invalid|missing|incorrect|correct|wrong"
    "|denied|accepted"
    "|basic|bearer|digest|oauth|oauth2|enabled|disabled|auto|manual|sha256|sha1|md5|rsa"
    "|ed25519|hmac|aes"
)
PLACEHOLDER = re.compile(
    rf"(?i)^(?:(?:{_WORDS})$|[x*•.#_-]+$|(.)\1+$"
    r"|.*(?:\byour\b|your[_-]|[_-]here$|change[_-]?me|replace[_-]?(?:me|with)|<[^>]*>|\.\.\.|…"
    r"|\*{3,}|(?:^|[_-])x{4,}"
    r"|placeholder|redacted|example[_-](?:key|token|secret|password)|insert[_-]|dummy|todo"
    r"|\[secret:\d+\])"
    r"|!\w+|[$%]\{?\{?[\w.]+|\{\{.*|\$\(.*|%\(.*|@\w+\(|<.*|process\.env.*|os\.(?:environ"
    r"|getenv).*|env[.:(].*"
    r"|(?:arn|urn|vault|secret|ssm|op|file|https?)://?.*|arn:.*)"
)
