"""From rewards to advantages: pure functions of numbers, one equation a file.

`assign` is the way in for the learner; the other modules hold the equations that it chooses from.

Three rules hold everywhere in this package:

* Groups are compared per trial, or per trial and episode, never per token or per training row: a long trial
  weighs no more than a short one, and cutting a trial into sequences changes nothing.
* A trial that failed (`None`) or has a non-finite reward has no rows and is nobody's peer; a reward of 0.0 is
  a score.
* No function returns NaN: a comparison with fewer than two members gives 0.

Nothing here imports torch, an engine, a store or the data model.
"""
