"""The text whose next tokens are predicted, written for this purpose. It contains no digits."""

PLAIN_TEXT = """\
The ferry to the island leaves twice a day, once in the morning and once in the late afternoon. In winter the \
second boat is often cancelled, because the wind comes up from the south and pushes the waves over the low wall \
of the harbour. Then the people who work on the mainland have to stay with friends, or sleep in the small hotel \
behind the station. Nobody complains very much. They know the sea, and they know that the captain would sail if \
he could.

Anna had lived on the island since she was a child. Her father kept bees, and her mother taught at the school, \
which had a single room and a stove in the middle of it. In the summer the windows were open all day, and the \
children could hear the bees in the lime trees. When Anna grew up she went to the city to study medicine. She \
liked the lectures and the long evenings in the library, but she missed the smell of salt and the sound of the \
ropes against the masts. After she had finished, she came back and opened a practice in the house of her parents.

Most of her patients are old. They come with a cough or a sore knee, and they stay for a cup of tea, because the \
way home is long and there is always something to talk about. Sometimes she has to send a patient to the hospital \
on the mainland. Then she calls the captain, and he starts the engine, whatever the weather is like. Last autumn \
a young woman gave birth on the boat, halfway between the two harbours. The mother wanted to name the child after \
the captain, but he shook his head and said that the boat had done the work.

A garden needs less care than most people think. The soil should be loose and dark, and it should hold water for \
a few days after the rain. If leaves are left on the ground in autumn, worms will pull them down and turn them \
into food for the plants. Weeds are best removed while they are small. Tall plants belong at the back, where \
they do not take the light away from the others, and herbs belong near the kitchen door. Whoever plants a tree \
should think of its size when it is old, and of the neighbours, who may like the sun as well.

Water is a strange substance. Almost everything else shrinks when it freezes, but ice takes more room than the \
water it is made of, and so it floats. If it sank, lakes would freeze from the bottom to the top, and few fish \
would survive a cold winter. Water also stores heat very well. A town by the sea is therefore cooler in summer \
and warmer in winter than a town in the middle of the country. Clouds are made of drops so small that the air \
can carry them. When the drops meet and grow, they become too heavy, and it begins to rain.

The library in the old part of the town was built by a merchant who could not read. He had become rich by selling \
wool, and he regretted all his life that he had never gone to school. So he gave his money for a house full of \
books, open to everybody, with a fire in the winter and large windows to the north. Above the door he had a \
sentence carved in stone. Visitors often stop and ask what it means, for the letters are worn, and the language \
is no longer spoken. It says that a closed book is a lamp without oil.
"""
