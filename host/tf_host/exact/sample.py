"""A real text for the probe to decode from, and a request for the rehearsal.

Activations of noise would hide what activations of text show.
"""

SAMPLE = """\
The harbour master kept three notebooks. In the first she wrote the ships that came in, with the hour, the flag and the
cargo: timber on Monday, salt on Tuesday, and on Friday forty crates of oranges that had travelled from Valencia. In the
second she wrote the weather, because her father had done so for 31 years before her, and because the insurers asked for
it. The third notebook was nobody's business but her own.

def tide(hours, height=2.4):
    return [height * math.cos(2 * math.pi * h / 12.42) for h in hours]

"Will it hold?" asked the engineer, looking at the old sea wall. "It held in 1953," she said, "and in 1976, and it will
hold tonight if nobody opens the sluice before the water turns."
He multiplied 7.5 by 12, wrote down 90, and was silent
for a while. Outside, the lamps along the quay went on one after another; somebody was singing in a language
that neither of them knew. 港の灯りが一つずつともった。 Les bateaux rentraient, l'un derrière l'autre.

1. Check the moorings. 2. Close the gates. 3. Write everything down, even what seems of no use, since whoever reads it
later will know better than you what mattered. The rules were short, and they hung on the wall beside the barometer,
which had been falling since noon: 1009, 1004, 998 hectopascals. She took up the pen again and began a new line.
"""

REQUEST = "Explain what a lighthouse is for, and list three things that its keeper does every evening."
