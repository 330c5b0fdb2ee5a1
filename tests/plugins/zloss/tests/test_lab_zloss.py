"""Does `z-loss` keep the contract of a loss, and is the penalty there?"""

from __future__ import annotations

import torch
from lab_zloss.loss import ZLoss
from lab_zloss.options import ZLossOptions
from torch.nn.functional import cross_entropy


def test_it_keeps_the_contract(check_loss):
    check_loss(ZLoss(ZLossOptions(weight=0.1)))


def test_without_weight_it_is_cross_entropy():
    torch.manual_seed(0)
    hidden, head, targets = torch.randn(5, 4), torch.randn(7, 4), torch.tensor([0, 6, -100, 3, 2])

    loss = ZLoss(ZLossOptions(weight=0.0))(hidden, head, targets)

    torch.testing.assert_close(loss, cross_entropy(hidden @ head.T, targets, reduction="sum"))


def test_the_penalty_is_the_weighted_square_of_log_z():
    hidden, head, targets = torch.zeros(2, 4), torch.zeros(8, 4), torch.tensor([1, -100])
    log_z = torch.tensor(8.0).log()

    loss = ZLoss(ZLossOptions(weight=0.5))(hidden, head, targets)

    torch.testing.assert_close(loss, log_z + 0.5 * log_z**2)
