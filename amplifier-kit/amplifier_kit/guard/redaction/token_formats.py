"""Mask the tokens of known services. One row per service: to add a service, add a row to the table below.

A row says which documented prefix (`mark`) a token has and what follows it, in a small notation from which both the
pattern and the examples of the tests are made: `{alnum:36}` means 36 letters or digits, `{hex:32+}` at least 32 hex
digits, `{word:20-40}` 20 to 40 characters; everything else is literal. ALPHABETS names the kinds.

Tokens without a recognisable form (Datadog, Mistral, Cloudflare and others) are found by their labels: see `labels`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import product
from os.path import commonprefix
from random import Random
from typing import Final, NamedTuple

from amplifier_kit.guard.redaction.prefilter import HEAD, MASK, VERY_LONG, Glance, is_word
from amplifier_kit.guard.redaction.private_keys import mask_private_keys, may_hold_private_key

_ALNUM: Final = string.ascii_letters + string.digits

#: The characters of each kind in `{kind:count}`.
ALPHABETS: Final = {
    "digit": string.digits,
    "hex": "0123456789abcdef",
    "Hex": "0123456789abcdefABCDEF",
    "uuid": "0123456789abcdef-",
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "alnum": _ALNUM,
    "word": _ALNUM + "_-",
    "dotted": _ALNUM + "_-.",
    "tilde": _ALNUM + "_-.~",
    "base64": _ALNUM + "+/",
    "padded": _ALNUM + "+/=_-",
    "path": _ALNUM + "_-/",
    "percent": _ALNUM + "_-.%+/=",
    # Characters that base64 has at certain places: of zero bits, and of a number.
    "quarter": "AQgw",
    "third": "AEIMQUYcgk",
    "fourth": "wxyz012345",
}

#: Where a token may start: after anything but a letter or digit; after anything at all, because the mark is telling
#: enough; not inside of a longer name; not inside of base64.
WORD: Final = "A-Za-z0-9"
ANYWHERE: Final = ""
ALONE: Final = r"A-Za-z0-9_\-"
NOT_BASE64: Final = r"A-Za-z0-9_\-+/"


class Run(NamedTuple):
    """At least `least`, at most `most` characters of one kind; None means no limit."""

    kind: str
    least: int
    most: int | None


class TokenFormat(NamedTuple):
    """What the tokens of one service look like."""

    service: str
    #: The prefixes, separated by spaces; with `before`, the middle or the end of a token.
    marks: str
    after: str
    before: str = ""
    start: str = WORD
    #: Whether a body must have capital and small letters and digits: for marks that ordinary names also have.
    mixed: bool = False
    #: Whether the mark is kept, such as the address of a webhook.
    keep: bool = False

    def groups(self) -> list[tuple[str, list[str]]]:
        """Return the marks that can be searched for together, with their common prefix."""
        marks = self.marks.split()
        common = commonprefix(marks)  # noqa: RUF071  # of characters, as is meant here
        return [(common, marks)] if len(common) > 1 else [(mark, [mark]) for mark in marks]

    def pattern(self, common: str, marks: list[str]) -> str:
        """Return the regular expression for tokens with these marks.

        In a match, `mark` is the mark of a token that has one in front, and `body` its random part.
        """
        literal, after = re.escape(common), _expression(self.after) + _end(self.after)
        rest = "|".join(re.escape(mark.removeprefix(common)) for mark in marks)
        if self.before:
            before = _start(self.start, "") + _expression(self.before)
            return f"(?P<mark>)(?P<body>{before}{literal}(?:{rest}){after})"
        # The mark comes first and the text before it is checked afterwards, which makes the search fast.
        return f"(?P<mark>{literal}{_start(self.start, literal)}(?:{rest}))(?P<body>{after})"

    def is_token(self, body: str) -> bool:
        """Return whether a match is a token; one with text before and after its mark always is."""
        return bool(self.before) or is_made_up(body, self.mixed)

    def example(self, mark: str, chance: Random) -> str:
        """Return an example that is random enough to be recognised."""
        while True:
            before, after = _fill(self.before, chance), _fill(self.after, chance)
            if self.is_token(after):
                return before + mark + after


def is_made_up(body: str, mixed: bool) -> bool:
    """Return whether a body is random, not a name (`sk-text-repr-fallback`) or a placeholder (`sk-xxxxxxxx`).

    A body with a random part is random, so a search may continue after a body that was rejected.
    """
    if _BLANK.search(body) and len(_BLANKS.sub("", body)) <= _LONGEST_NAME:
        return False
    if not _RANDOM.search(body):
        return False
    return not mixed or all(re.search(kind, body) for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def parts(template: str) -> Iterator[str | Run]:
    """Yield the literals and runs of a template."""
    for literal, kind, least, sign, most in _PART.findall(template):
        yield literal or Run(kind, int(least), None if sign == "+" else int(most or least))


#: A long run of letters, or a digit in a run of letters and digits: names have words and numbers between their hyphens.
_RANDOM = re.compile("[A-Za-z]{20}|(?=[A-Za-z0-9]{6})[A-Za-z]*+[0-9]")
#: What documentation writes in place of a token, and how long a name before it may be: `sk-ant-api03-xxxxxxxx`.
_BLANK = re.compile(r"[xX*.]{6}")
_BLANKS = re.compile(r"[xX*._\-]")
_LONGEST_NAME = 10
_PART = re.compile(r"([^{}]+)|\{([A-Za-z0-9]+):([0-9]+)(?:(\+)|-([0-9]+))?\}")


def _expression(template: str) -> str:
    expression = ""
    for part in parts(template):
        if isinstance(part, str):
            expression += re.escape(part)
        else:
            most = "" if part.most is None else part.most
            expression += f"[{re.escape(ALPHABETS[part.kind])}]{{{part.least},{most}}}"
    return expression


def _end(template: str) -> str:
    """Return the condition for the text after a token: a run that is too long is something else."""
    last = [None, *parts(template)][-1]
    return "" if isinstance(last, Run) and last.most is None else "(?![A-Za-z0-9])"


def _start(forbidden: str, mark: str) -> str:
    """Return the condition for the text before the mark, to be tested after the mark.

    Escapes end in letters and digits that do not belong to the word after them: `\\n` in escaped text, `%3D` in URLs,
    and the colours of a terminal.
    """
    if not forbidden:
        return ""
    escapes = (r"\\[nrt]", "%[0-9A-Fa-f]{2}", r"\[m", r"[\[;][0-9]m", r"[\[;][0-9]{2}m", ";[0-9]{3}m")
    return "(?:" + "|".join((f"(?<![{forbidden}]{mark})", *(f"(?<={escape}{mark})" for escape in escapes))) + ")"


def _fill(template: str, chance: Random) -> str:
    filled = ""
    for part in parts(template):
        if isinstance(part, str):
            filled += part
        elif part.kind == "uuid":
            filled += "-".join("".join(chance.choices(ALPHABETS["hex"], k=count)) for count in (8, 4, 4, 4, 12))
        else:
            filled += "".join(chance.choices(ALPHABETS[part.kind], k=part.least))
    return filled


# -- the table --

_UUID: Final = "{uuid:36}"

_MODELS: Final = (
    TokenFormat("OpenAI, DeepSeek, Langfuse", "sk-proj- sk-svcacct- sk-admin- sk-lf- sk-", "{word:16+}"),
    TokenFormat("restricted and public keys", "rk- pk-", "{word:16+}"),
    TokenFormat("Anthropic", "sk-ant-api03- sk-ant-admin01- sk-ant-oat01- sk-ant-ort01- sk-ant-sid01-", "{word:16+}"),
    TokenFormat("OpenRouter", "sk-or-v1-", "{hex:32+}"),
    TokenFormat("Google", "AIza", "{word:30+}", start=ANYWHERE),
    TokenFormat("Google OAuth", "ya29. GOCSPX-", "{word:16+}"),
    TokenFormat("Google refresh token", "1//0", "{word:40+}", start=ANYWHERE),
    TokenFormat("Google Gemini", "AQ.Ab", "{word:40+}"),
    TokenFormat("Groq, Hugging Face, Replicate", "gsk_ hf_ api_org_ r8_", "{alnum:20+}"),
    TokenFormat("xAI, Perplexity, Tavily, NVIDIA", "xai- pplx- tvly- nvapi-", "{word:20+}"),
    TokenFormat("LangSmith", "lsv2_pt_ lsv2_sk_ ls__", "{word:32+}"),
    TokenFormat("Fireworks", "fw_", "{alnum:20+}", mixed=True),
    TokenFormat("Cerebras", "csk-", "{alnum:30+}"),
    TokenFormat("Voyage", "pa-", "{word:43}", mixed=True),
    TokenFormat("ElevenLabs", "sk_", "{hex:48}"),
    TokenFormat("Pinecone", "pcsk_", "{word:40+}"),
    TokenFormat("Together", "tgp_v1_", "{word:40+}"),
    TokenFormat("Jina", "jina_", "{word:40+}", mixed=True),
    TokenFormat("Firecrawl", "fc-", "{hex:32}"),
    TokenFormat("E2B", "e2b_", "{hex:32+}"),
    TokenFormat("Modal", "ak- as-", "{alnum:22}", mixed=True),
    TokenFormat("Brave Search", "BSA", "{word:28}", start=ALONE, mixed=True),
    TokenFormat("Amazon Bedrock", "ABSK bedrock-api-key-", "{padded:80+}", start=NOT_BASE64),
)
_CODE: Final = (
    TokenFormat("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", "{alnum:20+}", start=ANYWHERE),
    TokenFormat("GitHub fine-grained", "github_pat_", "{word:20+}", start=ANYWHERE),
    TokenFormat(
        "GitLab",
        "glpat- glptt- gldt- glrt- glrtr- glcbt- glsoat- glffct- glft- glimt- glagent- gloas- glwt-",
        "{word:16+}",
    ),
    TokenFormat("Atlassian, Bitbucket", "ATATT3 ATCTT3 ATSTT3", "{padded:40+}"),
    TokenFormat("Bitbucket app password", "ATBB", "{alnum:28+}", mixed=True),
    TokenFormat("CircleCI", "CCIPAT_ CCIPRJ_", "{word:30+}"),
    TokenFormat("Buildkite", "bkua_ bkaj_ bkct_ bkpi_ bkpt_", "{alnum:32+}"),
    TokenFormat("npm", "npm_", "{alnum:20+}"),
    TokenFormat("PyPI", "pypi-", "{word:20+}", mixed=True),
    TokenFormat("RubyGems", "rubygems_", "{hex:40+}"),
    TokenFormat("crates.io", "cio", "{alnum:32}", mixed=True),
    TokenFormat("Docker", "dckr_pat_ dckr_oat_", "{word:20+}"),
    TokenFormat("NuGet", "oy2", "{lower:43}"),
    TokenFormat("Clojars", "CLOJARS_", "{lower:50+}"),
    TokenFormat("JFrog", "AKCp cmVmdGtu", "{alnum:50+}"),
    TokenFormat("Terraform Cloud", ".atlasv1.", "{word:40+}", before="{alnum:14}"),
    TokenFormat("Vault", "hvs. hvb. hvr.", "{word:20+}"),
    TokenFormat("Pulumi", "pul-", "{hex:40}"),
    TokenFormat("Doppler", "dp.pt. dp.ct. dp.sa. dp.st. dp.scim. dp.audit.", "{dotted:32+}"),
    TokenFormat("Infisical", "st.", "{hex:24}.{hex:32}.{hex:32}"),
    TokenFormat("Harness", "pat. sat.", "{word:22}.{alnum:24}.{alnum:20}"),
    TokenFormat("Octopus Deploy", "API-", "{upper:25-32}"),
    TokenFormat("Infracost", "ico-", "{alnum:32}"),
    TokenFormat("Snyk", "snyk_uat. snyk_sat.", "{dotted:20+}"),
    TokenFormat("SonarQube", "squ_ sqp_ sqa_", "{hex:40}"),
    TokenFormat("Sourcegraph", "sgp_ sgs_ slk_", "{word:40+}"),
    TokenFormat("JetBrains", "perm-", "{padded:16-80}.{padded:4-60}.{padded:20+}", start=ALONE, mixed=True),
    TokenFormat("Prefect", "pnu_ pnb_", "{alnum:36}"),
    TokenFormat("dbt", "dbtc_ dbtu_", "{padded:30+}"),
    TokenFormat("Postman", "PMAK-", "{hex:24}-{hex:34}"),
    TokenFormat("Linear", "lin_api_ lin_oauth_", "{alnum:20+}"),
    TokenFormat("Notion", "ntn_", "{alnum:40+}"),
    TokenFormat("Notion integration", "secret_", "{alnum:43}", mixed=True),
    TokenFormat("Airtable", "pat", "{alnum:14}.{hex:64}"),
    TokenFormat("Figma", "figd_ figo_ figu_", "{word:20+}"),
    TokenFormat("Canva", "cnvca", "{word:40+}", mixed=True),
    TokenFormat("Contentful", "CFPAT-", "{word:40+}"),
    TokenFormat("Typeform", "tfp_", "{dotted:40+}"),
    TokenFormat("ReadMe", "rdme_", "{lower:40+}"),
    TokenFormat("Dropbox", "sl.", "{word:130+}", mixed=True),
    TokenFormat("Frame.io", "fio-u-", "{padded:60+}"),
    TokenFormat("HubSpot", "pat-na1- pat-na2- pat-na3- pat-eu1- pat-ap1-", _UUID),
    TokenFormat("Salesforce", "!A", "{dotted:60+}", before="00D{alnum:12-15}"),
)
_CHAT: Final = (
    TokenFormat("Slack rotated token", "xoxe.", "{dotted:20+}", start=ANYWHERE),
    TokenFormat("Slack", "xoxa- xoxb- xoxc- xoxe- xoxo- xoxp- xoxr- xoxs-", "{word:10+}", start=ANYWHERE),
    TokenFormat("Slack app", "xapp- xwfp-", "{word:10+}"),
    TokenFormat("Slack cookie", "xoxd-", "{percent:20+}", start=ANYWHERE),
    TokenFormat(
        "Slack webhook",
        "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/",
        "{path:16+}",
        keep=True,
    ),
    TokenFormat(
        "Discord webhook",
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/ discord.com/api/v10/webhooks/",
        "{digit:17-20}/{word:60+}",
        keep=True,
    ),
    # The first part is the number of the bot in base64.
    TokenFormat(
        "Discord bot",
        "MT Mj Mz ND NT Nj Nz OD OT",
        "{third:1}{fourth:1}{alnum:19-24}.{word:6}.{word:27+}",
        start=ALONE,
    ),
    TokenFormat("Telegram bot", ":AAE :AAF :AAG :AAH", "{word:32}", before="{digit:8-10}"),
    TokenFormat(
        "Microsoft Teams webhook",
        "webhook.office.com/webhookb2/ outlook.office.com/webhook/",
        "{uuid:36}@{uuid:36}/{path:20+}",
        keep=True,
    ),
    TokenFormat("Zapier webhook", "hooks.zapier.com/hooks/catch/", "{digit:6-12}/{word:6+}", keep=True),
    TokenFormat(
        "Lark webhook",
        "open.feishu.cn/open-apis/bot/v2/hook/ open.larksuite.com/open-apis/bot/v2/hook/",
        "{word:20+}",
        keep=True,
    ),
    TokenFormat("Twilio", "SK AC", "{hex:32}"),
    TokenFormat("SendGrid", "SG.", "{word:16-64}.{word:16+}"),
    TokenFormat("Mailgun", "key-", "{hex:32}"),
    TokenFormat("Mailchimp", "-us", "{digit:1-2}", before="{hex:32}"),
    TokenFormat("Mandrill", "md-", "{word:22}", mixed=True),
    TokenFormat("Brevo", "xkeysib- xsmtpsib-", "{hex:64}-{alnum:16}"),
    TokenFormat("Resend", "re_", "{alnum:8}_{alnum:20+}", mixed=True),
    TokenFormat("Intercom", "dG9rO", "{base64:40+}", start=NOT_BASE64),
)
_CLOUD: Final = (
    TokenFormat("AWS", "AKIA ASIA ABIA ACCA", "{upper:16}"),
    TokenFormat("AWS session token", "IQoJb3JpZ2lu FwoGZXIvYXdz", "{base64:80+}"),
    TokenFormat("Azure client secret", "Q~", "{tilde:31-34}", before="{tilde:3}{digit:1}"),
    TokenFormat("Azure", "JQQJ99", "{alnum:26}", before="{alnum:52}"),
    TokenFormat("Azure storage", "+ASt +AMC +ABa", "{base64:6}==", before="{base64:76}"),
    TokenFormat("Azure messaging", "+ASb +AEh +ARm", "{base64:6}=", before="{base64:33}"),
    TokenFormat("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", "{hex:32+}"),
    TokenFormat("Heroku", "HRKU-", "{word:30+}"),
    TokenFormat("Vercel", "vcp_ vci_ vca_ vcr_ vck_", "{alnum:24+}"),
    TokenFormat("Vercel Blob", "vercel_blob_rw_", "{word:30+}"),
    TokenFormat("Netlify", "nfp_ nfc_ nfo_ nfu_", "{alnum:36+}"),
    TokenFormat("Fly.io", "fm1r_ fm1a_ fm2_ fo1_", "{padded:40+}"),
    TokenFormat("Render", "rnd_", "{alnum:20+}", mixed=True),
    TokenFormat("Deno Deploy", "ddp_ ddo_", "{alnum:36}"),
    TokenFormat("Cloudflare", "cfut_ cfat_ cfk_", "{word:40+}"),
    TokenFormat("Cloudflare Origin CA", "v1.0-", "{hex:24}-{hex:146}"),
    TokenFormat("Scaleway", "SCW", "{upper:17}"),
    TokenFormat("Alibaba Cloud", "LTAI", "{alnum:12-30}", mixed=True),
    TokenFormat("Tencent Cloud", "AKID", "{alnum:32}", mixed=True),
    TokenFormat("Yandex Cloud", "AQVN", "{word:35+}"),
    TokenFormat("Yandex IAM", "t1.", "{padded:20-400}.{padded:80+}", start=ALONE),
    TokenFormat("Yandex OAuth", "y0_", "{word:50+}"),
    TokenFormat("Shopify", "shpat_ shpca_ shppa_ shpss_", "{Hex:24+}", start=ANYWHERE),
    TokenFormat("Stripe, Clerk", "sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_", "{alnum:10+}"),
    TokenFormat("Stripe webhook", "whsec_", "{padded:16+}", start=ANYWHERE),
    TokenFormat("Square", "sq0atp- sq0csp- sq0idp-", "{word:20+}"),
    TokenFormat("Square, Facebook", "EAA", "{word:60+}", start=NOT_BASE64, mixed=True),
    TokenFormat("PayPal", "A21AA", "{word:80+}", start=NOT_BASE64, mixed=True),
    TokenFormat("Braintree", "access_token$production$ access_token$sandbox$", "{lower:16}${hex:32}"),
    TokenFormat("Plaid", "access-sandbox- access-development- access-production-", _UUID),
    TokenFormat("Adyen", "AQE", "{alnum:1}hm{padded:60+}", start=NOT_BASE64),
    TokenFormat("Razorpay", "rzp_live_ rzp_test_", "{alnum:14}"),
    TokenFormat("Paddle", "pdl_live_ pdl_sdbx_", "{word:40+}"),
    TokenFormat("Flutterwave", "FLWSECK- FLWSECK_TEST-", "{word:16+}"),
    TokenFormat("Mollie", "live_", "{alnum:30+}", start=ALONE, mixed=True),
    TokenFormat("Shippo", "shippo_live_ shippo_test_", "{hex:40}"),
    TokenFormat("EasyPost", "EZAK EZTK", "{alnum:54}", mixed=True),
    TokenFormat("Duffel", "duffel_live_ duffel_test_", "{word:40+}"),
)
_DATA: Final = (
    TokenFormat("Supabase", "sbp_", "{hex:40+}"),
    TokenFormat("Supabase secret key", "sb_secret_", "{word:20+}"),
    TokenFormat("PlanetScale", "pscale_tkn_ pscale_pw_ pscale_oauth_", "{dotted:30+}"),
    TokenFormat("Neon", "npg_", "{alnum:12+}", mixed=True),
    TokenFormat("Neon API", "napi_", "{lower:60+}"),
    TokenFormat("MongoDB Atlas", "mdb_sa_sk_", "{word:30+}"),
    TokenFormat("Databricks", "dapi dose dkea", "{hex:32}"),
    TokenFormat("ClickHouse", "4b1d", "{alnum:38}", mixed=True),
    TokenFormat("Elastic", "essu_", "{padded:40+}"),
    TokenFormat("Aiven", "AVNS_", "{word:15+}"),
    TokenFormat("CockroachDB", "CCDB1_", "{word:40+}"),
    TokenFormat("Xata", "xau_", "{alnum:20+}", mixed=True),
)
_WATCHING: Final = (
    TokenFormat("Grafana", "glc_ glsa_", "{padded:32+}"),
    TokenFormat("Grafana API key", "eyJrIjoi", "{base64:40+}", start=NOT_BASE64),
    TokenFormat("New Relic", "NRAK- NRJS- NRII- NRIQ- NRRA- NRAA-", "{word:19+}"),
    TokenFormat("New Relic license", "NRAL", "", before="{hex:32-36}"),
    TokenFormat("New Relic license", "FFFFNRAL", "", before="{hex:32}"),
    TokenFormat("Sentry", "sntrys_ sntryu_ sntrya_", "{padded:40+}"),
    TokenFormat("Honeycomb", "hcaik_ hcbik_ hcxik_ hcamk_ hcxmk_", "{lower:26+}"),
    TokenFormat("PagerDuty", "pdus+", "{word:20+}"),
    TokenFormat("Dynatrace", "dt0c01. dt0s01. dt0s02. dt0s03. dt0s08. dt0s16.", "{upper:24}.{upper:64}"),
    TokenFormat("Axiom", "xaat- xapt-", _UUID),
    TokenFormat("PostHog", "phx_ phs_", "{alnum:40+}"),
    TokenFormat("LaunchDarkly", "sdk- mob- api-", _UUID),
    TokenFormat("Mapbox", "sk.eyJ", "{word:20+}.{word:20+}", start=ALONE),
    TokenFormat("1Password service account", "ops_eyJ", "{padded:60+}"),
    TokenFormat(
        "1Password secret key", "A3-", "{upper:6}-{upper:6}-{upper:5}-{upper:5}-{upper:5}-{upper:5}", start=ALONE
    ),
    TokenFormat("age", "AGE-SECRET-KEY-1", "{upper:40+}", start=ANYWHERE),
    TokenFormat("Tailscale", "tskey-auth- tskey-api- tskey-client- tskey-scim- tskey-webhook- tskey-", "{word:12+}"),
    TokenFormat("web token", "eyJ", "{word:8+}.{word:8+}.{word:0+}", start=ALONE),
)

TOKEN_FORMATS: Final = (*_MODELS, *_CODE, *_CHAT, *_CLOUD, *_DATA, *_WATCHING)


# -- the search --


class _Search:
    """The search for the tokens of one row, or for those with one of its marks."""

    def __init__(self, number: int, form: TokenFormat, common: str, marks: list[str]) -> None:
        #: The place in the table; the first rows are masked first.
        self.number = number
        self._form = form
        self._marks = common, marks
        #: Whether such a token is several words.
        self._needs_text = not all(map(is_word, _literals(form, common)))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._form.pattern(*self._marks))

    def finds_any(self, glance: Glance) -> bool:
        text = glance.text if self._needs_text or glance.has_escapes else glance.long_words(VERY_LONG)
        return any(map(self._is_token, self._pattern.finditer(text)))

    def mask(self, text: str) -> tuple[str, int]:
        found = 0

        def replace(match: re.Match[str]) -> str:
            nonlocal found
            if not self._is_token(match):
                return match.group()
            found += 1
            return match["mark"] + MASK if self._form.keep else MASK

        return self._pattern.sub(replace, text), found

    def _is_token(self, match: re.Match[str]) -> bool:
        return self._form.is_token(match["body"])


class _Index(NamedTuple):
    """The searches by the text they need.

    A text without tokens costs about the same however long the table is: most marks begin a word, and the first
    characters of all long words are looked up at once.
    """

    by_head: dict[bytes, list[_Search]]
    heads: set[bytes]
    in_words: list[tuple[str, list[_Search]]]


#: A mark that begins with one of these begins a piece, even inside of a token.
_BREAKS = "-.+:"
_SEPARATORS = re.compile("[^A-Za-z0-9]+")


def may_hold_token(glance: Glance) -> bool:
    """Return, fast, whether a text may hold anything to mask."""
    return any(search.finds_any(glance) for search in _searches_for(glance)) or may_hold_private_key(glance)


def mask_tokens(text: str) -> tuple[str, int]:
    """Return the text with tokens and private keys masked, and how many there were."""
    total = 0
    for search in sorted(_searches_for(Glance(text)), key=lambda search: search.number):
        text, found = search.mask(text)
        total += found
    text, found = mask_private_keys(text)
    return text, total + found


def _searches_for(glance: Glance) -> set[_Search]:
    """Return the searches whose marks may be in the text.

    No token is shorter than VERY_LONG, so only long words are looked at.
    """
    by_head, known, in_words = _index()
    found: set[_Search] = set()
    if words := glance.long_words(VERY_LONG):
        for anchor, searches in in_words:
            if anchor in words:
                found.update(searches)
        heads = glance.heads()
        if not known.isdisjoint(heads):
            for head in known & heads:
                found.update(by_head[head])
    return found


@cache
def _index() -> _Index:
    by_head: dict[bytes, list[_Search]] = {}
    in_words: dict[str, list[_Search]] = {}
    for number, form in enumerate(TOKEN_FORMATS):
        for anchor, marks in form.groups():
            search = _Search(number, form, anchor, marks)
            if form.start == ANYWHERE or (form.before and anchor[0] not in _BREAKS):
                in_words.setdefault(anchor, []).append(search)
            else:
                for head in {head for mark in marks for head in _heads(mark, form.after)}:
                    by_head.setdefault(head, []).append(search)
    # Of anchors that are part of others, the short ones are enough.
    short = [anchor for anchor in in_words if not any(other in anchor for other in in_words if other != anchor)]
    merged = [
        (part, [search for anchor in in_words if part in anchor for search in in_words[anchor]]) for part in short
    ]
    return _Index(by_head, set(by_head), merged)


def _heads(mark: str, after: str) -> Iterator[bytes]:
    """Yield how the first piece of a token may begin: with the mark, and after a short one with what may follow it."""
    first, *rest = [piece for piece in _SEPARATORS.split(mark) if piece]
    if rest or len(first) >= HEAD or not mark[-1].isalnum():
        yield first[:HEAD].encode()
        return
    kinds: list[str] = []
    for part in parts(after):
        kinds += [ALPHABETS[part.kind]] * min(part.most or HEAD, HEAD) if isinstance(part, Run) else part
    for count in range(HEAD - len(first) + 1):
        # Fewer characters, where a separator comes next.
        for following in product(*kinds[:count]):
            yield (first + "".join(following)).encode()


def _literals(form: TokenFormat, common: str) -> list[str]:
    return [common, *(part for part in (*parts(form.before), *parts(form.after)) if isinstance(part, str))]
