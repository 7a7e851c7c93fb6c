from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.declining import Reading, read_answer

DECLINED = [
    "",
    "-",
    "I don't know.",
    "Unanswerable",
    "N/A",
    "It cannot be determined.",
    "I don't have any details about the budget of 2031 at the moment.",
    "I'm sorry, I can't help with that.",
    "Sorry, that's outside of what I can help with.",
    "As an AI language model, I do not have access to real-time data.",
    "Based on the provided context, I am unable to determine the number of seats.",
    "According to the documents you provided, there is no information about the warranty.",
    "The excerpts contain no details regarding the fee [2]. [1, 3]",
    "The warranty period is not mentioned in the documents.",
    "This question cannot be answered from the given documents.",
    "It is unclear from the given context who signed it.",
    "The answer is not in the context.",
    "That question is outside the scope of the documents.",
    "I can only answer questions about the handbook.",
    "Answer: Not found in the documents.",
    "Based on the provided context, there's no information about this. Please check with HR.",
    "Unfortunately the handbook excerpts given do not cover this topic.",
    # with what goes with it
    "I'm sorry. I don't have information about parking. Please contact the facility team.",
    "The context does not say who founded it. It only describes the founding year. If you have "
    "another document, I would be happy to look again.",
    "**Sorry**, the documents do not mention the fee (doc 3).\n\nSources:\n- a.pdf, page 3",
    "The text does not say that; I cannot tell.",
    "I don't know." + 999 * "\n",
    # other languages
    "抱歉，我无法回答这个问题。",
    "很抱歉，提供的文档中没有关于停车的信息。请联系人事部门。",
    "わかりません。",
    "申し訳ありませんが、その情報は記載されていません。",
    "모르겠습니다.",
    "제공된 문서에는 주차에 대한 정보가 없습니다.",
    "Das weiß ich nicht.",
    "Das steht nicht in den Dokumenten.",
    "Die Dokumente enthalten keine Angaben zur Garantie. Bitte wenden Sie sich an den Hersteller.",
    "Je ne sais pas.",
    "Aucune information disponible.",
    "Désolé, le contexte ne mentionne pas la garantie.",
    "No lo sé.",
    "Lo siento, el documento no menciona la garantía.",
    "No hay información sobre eso en el contexto.",
    "Non lo so.",
    "Il testo non menziona la garanzia.",
    "Não sei.",
    "O documento não menciona a garantia.",
    "Ik weet het niet.",
    "De documenten bevatten geen informatie over de garantie.",
    "Det vet jag inte.",
    "Nie wiem.",
    "Bilmiyorum.",
    "Không có thông tin về điều này.",
    "मुझे नहीं पता।",
    "لا أعرف",
    "Я не знаю.",
    "К сожалению, в тексте нет информации о гарантии.",
    "It's not specified in the text, so I can't say.",
    "Это не указано в тексте.",
    "Das geht aus den Unterlagen nicht hervor.",
    "Esa información no aparece en los documentos.",
    "Questa informazione non è presente nei documenti.",
    "Dokument nie zawiera tej informacji.",
    "Essa informação não consta nos documentos.",
    "Daar heb ik geen informatie over.",
]
ANSWERED = [
    "Paris",
    "No.",
    "None",
    "Nothing Compares 2 U",
    "not before 3 May",
    "Not available on weekends.",
    "Breakfast is not provided.",
    "He did not know the answer.",
    "We cannot provide refunds after 30 days.",
    "You can't. Leave cannot be carried over.",
    "It is unknown who built the tower.",
    "We do not have data centres in Asia.",
    "There is no evidence that the drug shortens the illness.",
    "The gateway does not contain a battery.",
    "The handbook says the connection cannot be restored. Use the console.",
    "There is no information desk in building 4; ask at the gate.",
    "I'm sorry, but the cafeteria closes at 5 [1].",
    "Please contact the facility team.",
    "不知道火舞是游戏角色。",
    "没有，假期不能结转。",
    "いいえ、休暇は繰り越せません。",
    "Nie, urlopu nie można przenieść.",
    "Non è presente alcun costo.",
    "No answer can be given before 3 May.",
    "Nicht vor dem 3. Mai",
    "Nein, die Garantie gilt nicht im Ausland.",
    "Es gibt keine Informationsstelle im Haus.",
    "Non, la garantie n'est pas prolongée.",
    "No, la garantía no se extiende.",
    "Нет, отпуск не переносится.",
]
IN_PART = [
    "I don't know the exact figure, but the limit is about 300 seconds.",
    "The context does not mention it, however the default is 5.",
    "The documents do not say who won. The cup was presented by the king.",
    "I do not have information about the fee. However, parking is free on Sundays.",
    "资料中没有提到价格，但是官网写明为五元。",
    "Die Dokumente nennen keinen Preis. Die Garantie beträgt zwei Jahre.",
]


@pytest.mark.parametrize("answer", DECLINED)
def test_an_answer_that_declines_is_recognised(answer: str) -> None:
    assert read_answer(answer) == Reading(declines=True, in_part=False, opens=True)


@pytest.mark.parametrize("answer", [*ANSWERED, *IN_PART])
def test_an_answer_is_not_taken_for_one_that_declines(answer: str) -> None:
    reading = read_answer(answer)
    assert not reading.declines
    # A sentence that declines among others is seen.
    assert reading.in_part or answer not in IN_PART[2:4]


# In the style of chat models: the first statement declines, whatever explanation follows.
OPENING = [
    "As of my last update in October 2023, I don't have the sales figures of that quarter. Sales "
    "depend on many things, such as the season.",
    "I'm sorry, but the information provided does not include the balance sheet. The ratio is the "
    "assets divided by the debts.",
    "You haven't provided the document. A policy usually names its term on the first page.",
    "The excerpt you shared only covers the price; it does not give the term. Prices rose by 3 %.",
    "Without access to the contract, I cannot determine the notice period. Most are a month long.",
    "Unfortunately, the filing does not break down revenue by country. Revenue rose in 2022.",
    "It is not possible to determine the exact fee from the given context. Fees vary by country.",
    "To answer your question, I would need access to the minutes. Minutes are kept for a year.",
    "It seems that the text was cut off and does not contain the end date. Dates are in part B.",
    "The date on which the licence expires was left out of the excerpts. Licences run for years.",
    "The yearly total is not explicitly listed. The table shows the months.",
    "My training data ends before that election, so I cannot name the winner. Polls were close.",
    "I do not have the figures, but I can explain the general formula: assets by debts.",
    "The margin cannot be calculated using the information provided in the table. It is a ratio.",
    "The report does not provide any information on the fee. However, you can find it online.",
]
NOT_OPENING = [
    "The fee is 5 euros. However, the document does not mention who pays it.",
    "Paris. I do not have more details about the district.",
    "The report does not list any lawsuits. Therefore, the number of lawsuits is 0.",
    "Das Dokument nennt keine Kosten. Daher beträgt die Summe 0 Euro.",
    "Le document ne mentionne aucun coût. Donc le total est de 0 euro.",
    "El documento no menciona costes. Por lo tanto, el total es 0.",
    "文件没有提到费用。因此总额为0元。",
    "I could not find anyone named Jon Smyth. However, John Smythe was the first mayor.",
    "Zero",
    "No one",
    "None of the above",
    "It is unknown who shot him.",
    "The insurance provided does not cover theft.",
    "Without a receipt, you cannot return the goods.",
    "You have access to healthcare. To get it, you need to apply.",
    "To calculate the margin, we need to divide 5 by 20. The margin is 25 %.",
]


@pytest.mark.parametrize("answer", OPENING)
def test_the_first_statement_of_an_answer_declines(answer: str) -> None:
    assert read_answer(answer).opens


@pytest.mark.parametrize("answer", NOT_OPENING)
def test_what_says_an_answer_does_not_open_with_a_refusal(answer: str) -> None:
    reading = read_answer(answer)
    assert not reading.opens
    assert not reading.sends_elsewhere


@pytest.mark.parametrize(
    ("answer", "sends_elsewhere"),
    [
        ("To find the exact figure, look at the annual report.", True),
        ("To determine the margin, you would need to look at the income statement.", True),
        ("To calculate the ratio, you would need two figures. It is A / B.", True),
        ("Look at the annual report.", True),
        ("Um die genaue Marge zu erfahren, müssten Sie im Bericht nachsehen.", True),
        ("Pour connaître le montant exact, vous devriez consulter le rapport annuel.", True),
        ("Para conocer el importe exacto, debería consultar el informe anual.", True),
        ("Per conoscere l'importo esatto, dovrebbe consultare la relazione annuale.", True),
        ("Um zu kündigen, müssen Sie einen Brief schicken.", False),
        ("The figure is 5. To find the others, look at the annual report.", False),
    ],
)
def test_an_answer_that_says_only_where_to_look_is_told_apart(
    answer: str, sends_elsewhere: bool
) -> None:
    reading = read_answer(answer)
    assert reading.sends_elsewhere is sends_elsewhere
    assert not reading.declines


def test_a_long_answer_says_more_than_that_it_has_none() -> None:
    courteous = " Please ask again."
    short = "I don't know." + courteous * 5
    assert read_answer(short).declines  # six sentences
    assert read_answer(short + courteous) == Reading(declines=False, in_part=True, opens=True)
    padded = "I don't know" + "!" * 588
    assert len(padded) == 600
    assert read_answer(padded).declines
    assert not read_answer(f"{padded}!").declines


@given(st.lists(st.sampled_from([*DECLINED, *ANSWERED]), min_size=1, max_size=4), st.text())
def test_an_answer_beside_it_makes_an_answer_of_anything(parts: list[str], strange: str) -> None:
    reading = read_answer("\n".join([*parts, "Paris is the capital."]))
    assert not reading.declines
    read_answer(strange)  # whatever it is


@pytest.mark.parametrize(
    ("text", "declines"),
    [
        ("<think>Is it in the context? No.</think>\n\nI don't know.", True),
        ("<thinking>The price is 5 €.</thinking>I cannot answer this question.", True),
        ("It is in none of the texts.</think>I don't know.", True),
        ("<think>I don't know.</think>The price is 5 €.", False),
        ("<think>I don't know. The price may be", False),
    ],
)
def test_what_a_model_thinks_before_is_not_its_answer(text: str, declines: bool) -> None:
    assert read_answer(text).declines is declines


USUAL = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text("utf-8"))


@pytest.mark.parametrize("language", USUAL)
def test_usual_refusals_of_each_language_decline_and_what_looks_like_one_answers(
    language: str,
) -> None:
    refusals = USUAL[language]["refusals"]
    answers = USUAL[language]["answers"]

    assert [text for text in refusals if not read_answer(text).declines] == []
    assert [text for text in answers if read_answer(text).declines] == []


CHAT = tomllib.loads(Path(__file__).with_name("chat_refusals.toml").read_text("utf-8"))


@pytest.mark.parametrize("language", CHAT)
def test_chat_answers_of_each_language_open_with_a_refusal_or_answer(language: str) -> None:
    refusals = CHAT[language]["refusals"]
    answers = CHAT[language]["answers"]

    assert [text for text in refusals if not read_answer(text).opens] == []
    assert [text for text in answers if read_answer(text).opens] == []
