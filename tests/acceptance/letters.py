"""Twenty ordinary tickets as customers write them: several kinds, many languages, and the charsets of their programs.

Owns the texts and how each is sent. Nothing here is hard for anybody: that is the point of them.
"""

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.acceptance.pasted_logs import excerpt

TICKET = "support.ticket"
REFUND = "billing.refund"
LOG = "incident.log"
IDEA = "feedback.idea"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One ticket; without a charset it is sent as JSON, with one as plain text, with a file as a form."""

    id: str
    """The ticket id where the form has room for one; plain text gets its id from the door."""
    language: str
    text: str
    kind: str = TICKET
    subject: str = ""
    charset: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    file: tuple[str, str, bytes] | None = None
    """Name, content type and content of an attachment."""

    @property
    def form(self) -> str:
        """How it is sent, in a word."""
        return "a form with a file" if self.file else self.charset or "JSON"

    def request(self) -> tuple[str, str, bytes]:
        """Return path, content type and body of the POST."""
        document: dict[str, Any] = {"id": self.id, "kind": self.kind, "subject": self.subject, "body": self.text}
        if self.attributes:
            document["attributes"] = self.attributes
        if self.file:
            boundary = f"letter-{uuid4().hex}"
            parts = [_part("ticket", "application/json", _json(document)), _part("file", *self.file[1:], self.file[0])]
            body = b"".join(b"--%s\r\n%s\r\n" % (boundary.encode(), part) for part in parts)
            return "/v1/tickets", f"multipart/form-data; boundary={boundary}", body + f"--{boundary}--\r\n".encode()
        if self.charset:
            path = f"/v1/tickets?kind={self.kind}"
            return path, f"text/plain; charset={self.charset}", self.text.encode(self.charset)
        return "/v1/tickets", "application/json", _json(document)


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def _part(name: str, content_type: str, content: bytes, filename: str = "") -> bytes:
    named = f'; filename="{filename}"' if filename else ""
    head = f'Content-Disposition: form-data; name="{name}"{named}\r\nContent-Type: {content_type}\r\n\r\n'
    return head.encode() + content


_TRACE = """\
Traceback (most recent call last):
  File "/srv/invoices/render.py", line 88, in render
    total = sum(line.net for line in invoice.lines)
AttributeError: 'NoneType' object has no attribute 'net'
"""

LETTERS = (
    Letter(
        id="en-login",
        language="English",
        subject="Nobody can log in since 9:40",
        text="Hello,\n\nsince 9:40 nobody in our office can log in to InvoiceCloud. We see 'error 500' after the"
        " password. This is urgent, we close the books today.\n\nRegards, Martha",
    ),
    Letter(
        id="de-pdf",
        language="German",
        charset="iso-8859-15",
        text="Guten Tag,\n\nwenn wir Rechnungen über 1.000 € als PDF öffnen, ist die zweite Seite leer. Das stört"
        " unsere Buchhaltung sehr. Bitte prüfen Sie das.\n\nMit freundlichen Grüßen\nJürgen Möß",
    ),
    Letter(
        id="fr-relance",
        language="French",
        subject="Relances envoyées deux fois",
        text="Bonjour,\n\ndepuis lundi, nos clients reçoivent chaque relance deux fois. Ce n'est pas bloquant, mais"
        " c'est gênant. Pouvez-vous regarder ?\n\nMerci d'avance,\nHélène Lefèvre",
    ),
    Letter(
        id="ru-export",
        language="Russian",
        charset="koi8-r",
        text="Здравствуйте!\n\nПосле обновления выгрузка счетов в бухгалтерию останавливается на середине. Файл"
        " создаётся, но в нём только половина строк. Помогите, пожалуйста.\n\nС уважением, Ольга",
    ),
    Letter(
        id="ja-search",
        language="Japanese",
        charset="shift_jis",
        text="お世話になっております。\n\n請求書の検索画面で顧客名をカタカナで入力すると、エラーが表示されます。"
        "漢字では問題ありません。ご確認をお願いいたします。\n\n佐藤",
    ),
    Letter(
        id="zh-upload",
        language="Chinese",
        charset="gb18030",
        text="您好：\n\n我们上传发票扫描件时，系统经常崩溃，需要重新登录。文件大小不超过两兆。请尽快处理，谢谢。\n\n王芳",
    ),
    Letter(
        id="ko-mail",
        language="Korean",
        charset="euc-kr",
        text="안녕하세요.\n\n어제부터 청구서 메일이 고객에게 도착하지 않습니다. 보낸 편지함에는 발송 완료로 표시됩니다."
        " 확인 부탁드립니다.\n\n김민수 드림",
    ),
    Letter(
        id="ar-total",
        language="Arabic",
        charset="windows-1256",
        text="السلام عليكم،\n\nالمجموع في الفاتورة لا يطابق مجموع البنود منذ أمس. نرجو مراجعة طريقة احتساب الضريبة"
        " في أقرب وقت.\n\nمع الشكر، ليلى",
    ),
    Letter(
        id="en-refund",
        language="English",
        kind=REFUND,
        subject="Charged twice",
        text="We were charged twice for February. Please refund one of the two payments.",
        attributes={"amount": "49.00", "currency": "EUR"},
    ),
    Letter(
        id="en-short-log",
        language="English",
        kind=LOG,
        subject="A few lines from last night",
        text="These lines came up when the import stopped:\n\n" + excerpt(25),
    ),
    Letter(
        id="es-factura",
        language="Spanish",
        subject="No puedo anular una factura",
        text="Hola:\n\nel botón «Anular» no hace nada cuando la factura ya está pagada. ¿Es así a propósito? Si no, por"
        " favor, indíquenme cómo hacerlo.\n\nUn saludo, Íñigo Muñoz",
    ),
    Letter(
        id="pt-boleto",
        language="Portuguese",
        charset="windows-1252",
        text="Olá,\n\nos boletos gerados ontem não têm código de barras. Os clientes não conseguem pagar. É urgente,"
        " por favor.\n\nObrigado, João Gonçalves",
    ),
    Letter(
        id="el-login",
        language="Greek",
        charset="iso-8859-7",
        text="Καλημέρα σας,\n\nδεν λαμβάνουμε τον κωδικό επιβεβαίωσης στο κινητό. Δοκιμάσαμε τρεις φορές χωρίς"
        " αποτέλεσμα.\n\nΕυχαριστώ, Νίκος",
    ),
    Letter(
        id="pl-vat",
        language="Polish",
        charset="iso-8859-2",
        text="Dzień dobry,\n\nna fakturach zaliczkowych stawka VAT jest zaokrąglana w złą stronę. Różnica wynosi jeden"
        " grosz na każdej pozycji.\n\nPozdrawiam, Łukasz Żółkiewski",
    ),
    Letter(
        id="tr-rapor",
        language="Turkish",
        charset="iso-8859-9",
        text="Merhaba,\n\naylık raporda ağustos ayı iki kez görünüyor, eylül ise hiç yok. Düzeltebilir misiniz?\n\n"
        "Teşekkürler, Işıl Çağlar",
    ),
    Letter(
        id="he-print",
        language="Hebrew",
        subject="הדפסה מימין לשמאל",
        text="שלום,\n\nבהדפסת חשבונית בעברית הסכומים מופיעים בצד הלא נכון. בתצוגה על המסך הכול תקין. תודה מראש, נועה",
    ),
    Letter(
        id="hi-idea",
        language="Hindi",
        kind=IDEA,
        subject="एक सुझाव",
        text="नमस्ते, क्या चालान की सूची में ग्राहक के शहर के अनुसार छाँटने का विकल्प जोड़ा जा सकता है? इससे हमारा बहुत समय बचेगा।",
    ),
    Letter(
        id="en-utf16",
        language="English",
        charset="utf-16",
        text="Hi,\n\nthis was saved by Notepad as \u201cUnicode\u201d, I hope you can read it. The LedgerSync window"
        " closes by itself after a minute. \u2013 Tom\n",
    ),
    Letter(
        id="en-trace",
        language="English",
        subject="Preview fails, traceback attached",
        text="The preview of draft invoices fails for one customer. The traceback is in the file.\n\n" + _TRACE,
        file=("render-error.txt", "text/plain; charset=utf-8", _TRACE.encode()),
    ),
    Letter(
        id="uk-refund",
        language="Ukrainian",
        kind=REFUND,
        subject="Повернення коштів",
        text="Добрий день! Ми скасували підписку до кінця пробного періоду, але гроші було списано. Прошу їх"
        " повернути.",
        attributes={"amount": "19.90", "currency": "UAH"},
    ),
)

REFUND_WITH_A_COMMA = Letter(
    id="de-refund",
    language="German",
    kind=REFUND,
    subject="Erstattung",
    text="Bitte erstatten Sie uns den doppelt abgebuchten Betrag von 1.234,50 Euro.",
    attributes={"amount": "1.234,50", "currency": "EUR"},
)
"""Nothing is wrong with it; but the handler of refunds cannot read its amount, today or tomorrow."""
