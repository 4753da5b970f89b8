"""The turns of phrase by which replies name a thing, and those that end the name."""

from __future__ import annotations

import re

from snellen.scoring.names import terms

_PRONOUN = r"(?:it|this|that|these|those|they|here|there|he|she)"
_NOUN_SUBJECT = r"(?:(?:the|this|that|these|those|my|our|your|its|their|his|her)\s+(?:[\w'-]+\s+){0,5}?[\w'-]+|what\s+(?:you|we|i)\s+(?:see|have|are (?:seeing|looking at))(?:\s+here)?)"
_HEDGE = (
    r"(?:most\s+|very\s+|quite\s+|almost\s+|highly\s+)?(?:likely|probably|certainly|definitely|clearly|possibly|perhaps|"
    r"indeed|actually|in fact|obviously|apparently|either|also|simply|just|undoubtedly|presumably|therefore|thus|maybe|"
    r"unmistakably|distinctly|evidently|surely|really|in all likelihood)"
)
_BEFORE = r"(?:^|[,;:(\"'-]\s*|\b(?:that|think|believe|say|guess|so|and|but|therefore|thus|as|know|suggest|suggests|indicates|means|conclude|because|since|suspect|reckon|sure|confident|or|yes|well|hence|confirms|likely|possible|if)\s+)"
IS = re.compile(
    rf"(?:{_BEFORE}(?P<pronoun>{_PRONOUN})|(?:^|[\s,;:(])(?P<noun>{_NOUN_SUBJECT}))"
    r"(?:\s+(?:in|on|of|at|from|inside)\s+(?:the|this|your|that)\s+[\w'-]+(?:\s+[\w'-]+)?)?"
    r"\s*(?:\s(?P<verb>is|are|was|were)|'s|'re|\s(?P<modal>could|might|may|would|must|should|can|has to|have to|will)\s+(?:\w+ly\s+)?be"
    r"|\s(?P<seem>appears?|seems?|looks?|sounds?)\s+(?:\w+\s+)?(?:to\s+(?:\w+ly\s+)?be|like|to\s+(?:show|depict|resemble)))"
    rf"(?P<hedge>(?:\s*,?\s+{_HEDGE},?)*)\s*:?\s+(?P<name>(?!not\b|n't)[^\s].*)$",
    re.IGNORECASE | re.DOTALL,
)
CALLED = re.compile(
    r"\b(?:known as|called|named|identified as|recogni[sz](?:ed|able) as|classified as|referred to as|"
    r"identify (?:it|this|the \w+|this \w+) as(?: being)?|recogni[sz]e (?:it|this) as|labell?ed(?: as)?|"
    r"characteristics? of|typical of|consistent with|indicative of|belongs? to|points? to(?:wards?)?|"
    r"suggests?(?: that)?(?: it is| it's| this is| we have)?|indicates?(?: that)?(?: it is| it's| this is)?|"
    r"match(?:es|ing)?(?: those of| that of| the description of)?|diagnostic (?:of|for)|features of|"
    r"(?:depiction|picture|photo|photograph|image|example|portrait|drawing|illustration|specimen) of|(?:you're|you are|we're|i'm|we are|i am) (?:looking at|seeing)|"
    r"(?:image|picture|photo|photograph|figure|scene|frame) (?:\w+ly |here )?(?:shows?|depicts?|features?|displays?|contains?|captures?|is of|shows us|appears to (?:show|depict|feature))|"
    r"(?:i|we|you) (?:can )?(?:clearly )?(?:see|recogni[sz]e|spot|observe)(?: (?:it|this|that) as)?|must be|has to be|looks like|appears to be|seems to be|"
    r"i(?:'d|'m| would| am| will|'ll)? ?(?:think|believe|say|guess|suspect|go with|going to say|going with|call (?:it|this|that)|describe (?:it|this|that|the \w+) as|bet on|fairly sure|pretty sure|quite sure|confident|reckon|identify)"
    r"(?: (?:that )?(?:it is|it's|this is|that is|that's|this|it))?(?: as)?)"
    r"\s+(?P<name>(?!not\b)[^\s].*)$",
    re.IGNORECASE | re.DOTALL,
)
NOT_BUT = re.compile(
    r"^(?:it(?:'s| is) |this is |that(?:'s| is) )?not\s+(?:an?\s+|the\s+)?[^,;]{1,60}?(?:,\s*(?:but\s+)?(?:rather\s+)?|\s+but\s+(?:rather\s+)?|;\s*)(?P<name>.+)$",
    re.IGNORECASE | re.DOTALL,
)
LABEL = re.compile(
    r"^\(?(?:the\s+)?(?:[\w-]+\s+){0,2}(?:answer|species|name|common name|identification|object|animal|bird|plant|flower|class|category|label|"
    r"breed|model|subject|title|id|prediction|dish|brand|make and model|landmark|variety|aircraft|digit|colou?r|shape|result|guess|identity|item|vehicle|car|fish|dog|cat|tree|fruit|conclusion)"
    r"(?: name)?\s*(?::|=|-\s|->)\s*(?P<name>.+)$",
    re.IGNORECASE | re.DOTALL,
)
SCIENTIFIC = re.compile(
    r"^\(?(?:scientific|latin|binomial|botanical|taxonomic)(?: name)?\s*(?::|=|-\s|is)\s*(?P<name>.+)$",
    re.IGNORECASE | re.DOTALL,
)
OTHER_LABEL = re.compile(r"^[A-Za-z][\w '/-]{1,40}:\s*\S", re.IGNORECASE)
VERB = re.compile(
    r"\s(?:is|are|was|were|has|have|had|isn't|aren't|can|cannot|can't|could|may|might|should|must|do|does|don't|doesn't|shows?|appears?|seems?|"
    r"depicts?|contains?|looks?|includes?|include|need|needs|please|ask|asks|asked)\b|'(?:m|re|ve|ll)\b|n't\b|^(?:i|we|you|let|please|looking|based|given|to|what|which|how|there)\b",
    re.IGNORECASE,
)
_ENDS = (
    r"with|because|since|as (?:it|its|the|indicated|evidenced|shown|seen|can|they|suggested|this|well|opposed|a)|which|that|who|whose|where|while|"
    r"based on|due to|given|in|along|across|towards?|into|onto|around|during|outside|inside|within|among|between|after|before|on (?:the|a|an|this|its|top|it)|standing|sitting|perched|flying|"
    r"swimming|from|at (?:the|a|an)|by (?:its|the|their|a)|judging|considering|according|rather than|instead of|not|but|though|although|however|so|"
    r"and (?:not|it|the|its|this|has|is|here)|featuring|showing|seen|shown|visible|resting|holding|wearing|against|facing|known|if|for (?:sure|its|the)|"
    r"thanks to|(?:here|again|too|indeed|instead|then|now)$|in (?:english|colou?r)|native to|commonly|to (?:me|my)|eating|drinking|feeding|walking|running|playing|"
    r"looking|foraging|operated|climbing|sleeping|lying|laying|hanging|carrying|jumping|wading|soaring|grazing|hovering|taking|landing|parked|made|"
    r"built|located|covered|filled|used|taken|photographed|captured|belonging|displaying|exhibiting|characteri[sz]ed|identified|identifiable|"
    r"distinguished|recogni[sz]able|found|surrounded|owned|designed|manufactured|produced|also|next to|beside|near|behind|under|over|above|through|"
    r"usually|typically|often|probably|likely|possibly|i (?:think|believe|guess|would|suspect)|is|are|was|were|has|have|appears|it's"
)
TAIL = re.compile(
    rf"(?<=\S)\s+(?:{_ENDS})\b.*$|\s*(?:;|:\s|\s-+\s|->|\.\s|!|\?\s|\n).*$|\s*,(?!\d{{3}}\b|\s*(?:or\b|(?:could|might|may) be\b|maybe\b|perhaps\b|possibly\b)).*$",
    re.IGNORECASE | re.DOTALL,
)
OR = re.compile(
    r"(?:,?\s+(?:or|or possibly|or maybe|or perhaps|or even|and/or|vs\.?)\s+|,\s*(?:(?:it )?(?:could|might|may) (?:also )?be|maybe|perhaps|possibly)\s+)"
    r"(?:an?\s+|the\s+|maybe\s+|possibly\s+|perhaps\s+)*|\s+/\s+|或者?|还是",
    re.IGNORECASE,
)
BRACKET = re.compile(r"\s*[(\[]([^()\[\]]{1,120})[)\]]?")
LEAD = re.compile(
    r"^(?:[\s\"'*:,.-]+|(?:(?:it |this |that )?(?:could|might|may|must|would|should) (?:well |also |possibly )?be|looks to be|an?|the|some|my answer|answer|(?:most |very |almost )?(?:likely|probably|possibly|certainly|definitely|clearly|obviously)|perhaps|maybe|simply|actually|"
    r"either|called|named|(?:species|kind|type|member|breed|variety|photo|picture|image|close-up|pair|group|specimen|example|individual|genus|drawing|illustration|bird|couple|flock|herd|bunch)\s+(?:of|called|known as|named)|"
    r"specifically|namely|sure|well|hmm|okay|ok|yes|yeah|indeed|oh|ah|that|thus|so|therefore|it's|it is|this is|that's|that is|they are|these are|i think|i believe|i'd say|i would say|i guess|i'd guess|"
    r"(?:c'est|ce sont|das ist|es ist|es|è|isto é|é) (?:une?|la|le|les|eine?|der|die|das|el|los|las|uno|una|un|il|lo|um|uma|o)|looks like|to be|be|as|in fact|adult|juvenile|immature|(?:number|digit|numeral|letter)(?=\s+[\w'\"]+\W*$))\b(?!-)[\s,:]*)+",
    re.IGNORECASE,
)
NO_NAME = terms(
    "it this that they yes no i im unknown none nothing image picture photo question answer unclear not sure here there following above below "
    "unidentified unsure hard difficult impossible clear visible shown very too likely same different able unable sorry n na what which is "
    "are of in on what's please do does you name short phrase to be one word following option"
)
CJK_IS = re.compile(
    r"(?:这|那|它|图中|图片|照片|此|画面)[^是,，。]{0,14}(?:是|为|显示了?)(?:一|两)?(?:只|个|种|条|朵|棵|张|辆|架|匹|头|名|位|座|幅)?(?P<name>[^,，。;；的\n]{1,20})"
    r"|(?:看起来|应该|可能)(?:像|是)(?:一)?(?:只|个|种|条|朵|棵|辆|架)?(?P<name2>[^,，。\n]{1,20})"
)
WEAK_WORDS = terms("could might may possibly perhaps maybe can")
