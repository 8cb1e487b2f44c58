"""WebArena-Lite: 165 tasks of WebArena, one for each of 165 kinds, which papers hold out for evaluation.

Source: VisualAgentBench (github.com/THUDM/VisualAgentBench, VAB-WebArena-Lite/new/test_webarena_lite.raw.json,
commit 0c6f549), field `old_task_id`. Only the choice of tasks is taken from it. It also rewords some tasks and
changes some of their evaluators; the tasks here are WebArena's own.
"""

from __future__ import annotations

IDS = (
    *(4, 7, 15, 20, 23, 27, 33, 37, 43, 44, 48, 56, 58, 65, 69, 71, 75, 77, 82, 88, 93, 95, 96, 97, 98),
    *(103, 109, 115, 117, 118, 123, 125, 127, 131, 135, 139, 144, 149, 155, 156, 157, 162, 167, 169, 173, 182),
    *(190, 196, 202, 205, 211, 215, 220, 221, 225, 227, 235, 236, 240, 247, 250, 254, 258, 259, 268, 270, 276),
    *(283, 285, 287, 288, 296, 300, 311, 313, 318, 321, 324, 333, 335, 348, 349, 354, 357, 361, 367, 368, 369),
    *(374, 376, 381, 382, 383, 384, 386, 387, 392, 401, 404, 415, 419, 423, 426, 431, 440, 448, 454, 458, 464),
    *(466, 470, 476, 485, 488, 491, 497, 505, 506, 509, 514, 516, 521, 524, 528, 534, 538, 548, 566, 567, 574),
    *(577, 582, 599, 601, 605, 612, 619, 626, 631, 641, 645, 652, 657, 668, 673, 678, 682, 686, 693, 704, 710),
    *(714, 720, 729, 733, 741, 745, 748, 760, 762, 768, 791, 798, 809, 811),
)
