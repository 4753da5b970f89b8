"""Stage 2: the projector and the language model learn to answer, over cached features of the frozen vision tower.

Several questions share one image prefix in a single sequence: a block mask lets each see the prefix and itself, and
its positions go on from the prefix, so every question gets the same logits as it would alone. Three kinds of auxiliary
target speed up what is learned last: before the asked value stands, predict the true one; inside the network, tell of
every value that is named whether it is the true one; and tell what stands where before comparing (asking.READERS).
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

import asking
import torch
import torch.nn.functional as F
from asking import Asked, Draw, Finder
from parallel import averaged
from pictures import PATCHES, Pool
from torch import Tensor, nn

# One cycle of batches: p portraits, q pairs, s sets and groups, c crowds, r relations, w walks, d digits, e digit pairs.
CYCLE = "pqrpsqpdpqwpeqpsrpcqpsdpqwprecp"
ASK = {"p": 8, "q": 5, "s": 2, "c": 1, "r": 6, "w": 4, "d": 6, "e": 2}
ROWS = {"p": 8, "q": 8, "s": 12, "c": 24, "r": 8, "w": 8, "d": 8, "e": 12}
PICTURES = {"p": 1, "q": 2, "c": 1, "r": 1, "w": 4, "d": 1, "e": 2}
IGNORED = -100


def questions(steps: int) -> int:
    """How many questions one process asks in so many steps."""
    return sum(ROWS[letter] * ASK[letter] for letter in (CYCLE * (steps // len(CYCLE) + 1))[:steps])


class Words:
    """Token ids of strings, remembered."""

    def __init__(self, tokens) -> None:
        self._raw = tokens.backend_tokenizer
        self._known: dict[str, list[int]] = {}
        ids = tokens.convert_tokens_to_ids
        self.bos, self.eos = tokens.bos_token_id, tokens.eos_token_id
        self.user, self.assistant = ids("<|user|>"), ids("<|assistant|>")

    def __call__(self, text: str) -> list[int]:
        if text not in self._known:
            self._known[text] = self._raw.encode(text, add_special_tokens=False).ids
        return self._known[text]


@dataclass
class Row:
    """One sequence after its prefix: tokens, question numbers, positions, labels, label weights, value flags."""

    ids: list[int] = field(default_factory=list)
    segment: list[int] = field(default_factory=list)
    position: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    match: list[int] = field(default_factory=list)  # -1 nothing, 0 a false value ends here, 1 the true one
    answer: list[int] = field(default_factory=list)  # question number where an answer token is predicted, else -1
    readings: list[tuple[str, int, int]] = field(default_factory=list)  # reader, token, label


def _ends(ids: list[int], part: list[int]) -> list[int]:
    n = len(part)
    return [i + n - 1 for i in range(len(ids) - n + 1) if ids[i : i + n] == part]


def add(row: Row, asked: Asked, number: int, start: int, words: Words) -> None:
    """Append one question, its answer and its auxiliary targets to a row."""
    q = asked.question
    question = [*words(q.text), words.assistant]
    answer = [*words(q.reply), words.eos]
    tokens = question + answer
    label = [IGNORED] * (len(question) - 1) + answer + [IGNORED]
    weight = [0.3] * (len(question) - 1) + [1.0] * len(answer) + [0.0]
    match = [-1] * len(tokens)
    if q.kind == "truth" and asked.truth is not None:
        true = words(" " + asked.truth)
        head = q.text.split(" True or false?")[0].split("? Answer")[0]
        last = len(words(head.rstrip("."))) - 1
        match[last] = int(q.target)
        stem = " ".join(head.rstrip(".").split(" ")[: -len(asked.truth.split())])
        for step, token in enumerate(true):
            label[len(words(stem)) - 1 + step] = token
    elif asked.truth is not None:
        mark = question.index(words("?")[0])
        label[mark] = words(" " + asked.truth)[0]
    if q.kind == "choice":
        for letter, option in q.options.items():
            for end in _ends(question, words(f"{letter}. {option}")):
                match[end] = int(letter == q.target)
    for word, reader, value in asked.readings:
        row.readings.append((reader, len(row.ids) + _ends(question, words(word))[0], value))
    row.ids += tokens
    row.segment += [number + 1] * len(tokens)
    row.position += range(start, start + len(tokens))
    row.label += label
    row.weight += weight
    row.match += match
    row.answer += [-1] * (len(question) - 1) + [number] * len(answer) + [-1]


@dataclass
class Source:
    """The pools with their features, and the questions that a batch of each letter asks."""

    pools: dict[str, Pool]
    features: dict[str, Tensor]
    draw: Draw
    finder: Finder = field(init=False)

    def __post_init__(self) -> None:
        self.finder = Finder(self.pools["portrait"])
        self.by_label: dict[int, list[int]] = defaultdict(list)
        for i, label in enumerate(self.pools["digit"].shows):
            self.by_label[label].append(i)

    def batch(self, letter: str) -> tuple[Tensor, list[list[Asked]]]:
        """Features [rows, pictures * PATCHES, width] and the questions of each row."""
        draw, rows, questions = self.draw, [], []
        pool = {"c": "crowd", "r": "couple", "w": "walk", "d": "digit", "e": "digit"}.get(letter, "portrait")
        shows = self.pools[pool].shows
        size = draw.between(3, 4) if letter == "s" else PICTURES[letter]
        while len(rows) < ROWS[letter]:
            asks = range(ASK[letter])
            if letter == "q":
                index = list(self.finder.pair(level := asking.pair_level(draw), draw))
                first, second = (shows[i] for i in index)
                levels = [level, *(asking.balanced_level(first, second, draw) for _ in asks[1:])]
                asked = [asking.about_pair(first, second, one, draw) for one in levels]
            elif letter == "s":
                index, question = self.finder.set(draw)
                if len(index) != size:
                    continue
                asked = [question() for _ in asks]
            elif letter == "e":
                first = draw.below(len(shows))
                same = draw.random() < 0.5
                label = shows[first] if same else draw.pick([d for d in range(10) if d != shows[first]])
                index = [first, draw.pick(self.by_label[label])]
                asked = [asking.about_digits(shows[index[0]], shows[index[1]], draw) for _ in asks]
            elif letter == "w":
                start = 4 * draw.below(len(shows) // 4)
                index = list(range(start, start + 4))
                (direction, begin), (_, end) = shows[start], shows[start + 3]
                asked = [asking.about_walk(direction, begin, end, draw) for _ in asks]
            else:
                index = [draw.below(len(shows))]
                shown = shows[index[0]]
                if letter == "c":
                    asked = [Asked(asking.ask.count(len(shown), 5), "count")]
                else:
                    about = {"p": asking.about_portrait, "r": asking.about_couple, "d": asking.about_digit}[letter]
                    asked = [about(shown, draw) for _ in asks]
            rows.append(index)
            questions.append(asked)
        flat = torch.tensor(rows).flatten()
        return self.features[pool][flat].float().reshape(len(rows), size * PATCHES, -1), questions


class Aids(nn.Module):
    """What only training needs: the tellers of true values after two layers, and the readers after one of them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.match = nn.ModuleList([nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1)) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.names = list(asking.READERS)
        self.readers = nn.ModuleList([nn.Linear(width, n) for n in asking.READERS.values()])

    def loss(self, states: tuple[Tensor, ...], match: Tensor, rows: list[Row]) -> Tensor:
        """states: hidden states [B, T, width] of the question tokens by layer; match [B, T] as in Row."""
        loss = torch.zeros(())
        flagged = match >= 0
        if flagged.any():
            target = match[flagged].float()
            for layer, head in zip((-3, -2), self.match, strict=True):
                loss = loss + 0.25 * F.binary_cross_entropy_with_logits(
                    head(states[layer][flagged]).squeeze(-1), target
                )
        found: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for b, row in enumerate(rows):
            for reader, token, value in row.readings:
                found[reader].append((b, token, value))
        if found:
            terms = []
            for name, places in found.items():
                where, token, value = (torch.tensor(column) for column in zip(*places, strict=True))
                logits = self.readers[self.names.index(name)](self.norm(states[-3][where, token]))
                terms.append(F.cross_entropy(logits, value))
            loss = loss + 0.25 * torch.stack(terms).mean()
        return loss


def forward(model: nn.Module, words: Words, features: Tensor, questions: list[list[Asked]], aids: Aids | None):
    """Loss of one batch, and (cell, right) of every question."""
    core = model.model
    images = core.multi_modal_projector(features)
    count, prefix = images.shape[0], images.shape[1] + 2
    rows = []
    for asked in questions:
        row = Row()
        for number, one in enumerate(asked):
            add(row, one, number, prefix, words)
        rows.append(row)
    longest = max(len(row.ids) for row in rows)

    def padded(name: str, fill: float) -> Tensor:
        return torch.tensor([getattr(row, name) + [fill] * (longest - len(row.ids)) for row in rows])

    embed = model.get_input_embeddings()
    start = embed(torch.tensor([[words.bos, words.user]]).expand(count, 2))
    inputs = torch.cat([start, images, embed(padded("ids", 0))], 1)
    segment = torch.cat([torch.zeros(count, prefix, dtype=torch.long), padded("segment", -1)], 1)
    position = torch.cat([torch.arange(prefix).expand(count, prefix), padded("position", 0)], 1)
    total = prefix + longest
    seen = (segment[:, :, None] == segment[:, None, :]) | (segment[:, None, :] == 0)
    seen &= torch.ones(total, total, dtype=torch.bool).tril()
    mask = torch.zeros(count, 1, total, total).masked_fill(~seen[:, None], -1e9)
    out = core.language_model(
        inputs_embeds=inputs, attention_mask=mask, position_ids=position, use_cache=False, output_hidden_states=True
    )
    hidden = out.last_hidden_state[:, prefix:]
    label, weight = padded("label", IGNORED), padded("weight", 0.0)
    chosen = label != IGNORED
    logits = model.lm_head(hidden[chosen])
    each = F.cross_entropy(logits, label[chosen], reduction="none")
    loss = (each * weight[chosen]).sum() / weight[chosen].sum()
    if aids is not None:
        states = tuple(state[:, prefix:] for state in out.hidden_states)
        loss = loss + aids.loss(states, padded("match", -1), rows)
    hits = torch.zeros_like(chosen)
    hits[chosen] = logits.detach().argmax(1) == label[chosen]
    answer = padded("answer", -1)
    results = []
    for b, asked in enumerate(questions):
        for number, one in enumerate(asked):
            results.append((one.cell, bool(hits[b][answer[b] == number].all())))
    return loss, results


def train(model: nn.Module, tokens, source: Source, steps: int, log, save) -> None:
    """`steps` batches through CYCLE, AdamW with a cosine; accuracies of the running questions are logged."""
    words = Words(tokens)
    torch.manual_seed(17)
    width = model.config.text_config.hidden_size
    aids = Aids(width)
    parameters = [p for p in [*model.parameters(), *aids.parameters()] if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.02, betas=(0.9, 0.98))
    tally: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    asked = 0
    for step in range(steps):
        rate = 2e-3 * min(1, (step + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * step / steps)) + 1e-5
        for group in optimiser.param_groups:
            group["lr"] = rate
        features, questions = source.batch(CYCLE[step % len(CYCLE)])
        loss, results = forward(model, words, features, questions, aids)
        optimiser.zero_grad()
        loss.backward()
        averaged(parameters)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        asked += len(results)
        for cell, right in results:
            tally[cell][0] += right
            tally[cell][1] += 1
        if step % 300 == 299:
            log(
                f"language {step + 1}",
                round(float(loss.detach()), 3),
                asked,
                {c: round(r / n, 2) for c, (r, n) in sorted(tally.items())},
            )
            tally.clear()
        if step % 3000 == 2999:
            save()


def learn_to_guess(model: nn.Module, tokens, source: Source, grey: Tensor, steps: int, log) -> None:
    """A short last stage after which the model guesses when it is shown nothing.

    Before it, a flat grey picture is like none in training and is answered with words that are no answer at all, which
    is worse than chance. Every other batch has the features of a grey picture ([PATCHES, width]) for those of its
    pictures: what is left to learn there is how often each answer is right. The others keep what was learned.
    """
    words = Words(tokens)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=4e-4, weight_decay=0.0, betas=(0.9, 0.98))
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 4e-4 * min(1, (step + 1) / 30) * (0.5 + 0.5 * math.cos(math.pi * step / steps)) + 1e-6
        features, questions = source.batch(CYCLE[step // 2 % len(CYCLE)])
        if step % 2:
            features = grey.repeat(features.shape[0], features.shape[1] // grey.shape[0], 1)
        loss, _ = forward(model, words, features, questions, None)
        optimiser.zero_grad()
        loss.backward()
        averaged(parameters)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        if step % 100 >= 98:
            log(f"guessing {step + 1}", "grey" if step % 2 else "seen", round(float(loss.detach()), 3))
