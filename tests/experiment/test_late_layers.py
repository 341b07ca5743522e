import pytest

from form_invariance.errors import UserError
from form_invariance.experiment.late_layers import first_late_layer


def test_late_layers_begin_at_half_of_the_depth_or_at_a_layer_of_the_model():
    assert [first_late_layer(given, 5) for given in ("half_depth", "0", "4")] == [2, 0, 4]
    for wrong in ("5", "-1", "2.5", "onset"):
        with pytest.raises(UserError, match=f"^late_from: '{wrong}' must be 'half_depth' or a layer of 0..4"):
            first_late_layer(wrong, 5)
