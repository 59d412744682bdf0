"""Tests whose cases take long together: by day every third case of each runs, at night all do.

They are those that took more than a second and a half of processor time with three cases or more, more than half of the
time of all tests without Spark. Cases differ by structure, predicate or window.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DEAR", "leave_to_the_night"]

ONE_OF = 3

DEAR = {
    "api/test_pending.py::test_trimming_keeps_ordinals_and_blocks",
    "api/test_pending.py::test_waiting_changes_nothing",
    "api/test_read_once.py::test_every_row_of_every_source_arrives_once",
    "api/test_reused_memory.py::test_feeds_and_joins_of_many_streams",
    "api/test_reused_memory.py::test_results_are_those_of_memory_that_is_left_alone",
    "api/test_shedding.py::test_the_estimate_is_near_the_truth",
    "api/test_snapshot.py::test_restart_after_every_push",
    "api/test_turns.py::test_streams_of_other_density_keep_up",
    "bench/test_cases.py::test_baselines_find_the_same_pairs",
    "bench/test_cases.py::test_every_output_is_checked",
    "bench/test_cases.py::test_other_options",
    "bench/test_streams.py::test_every_distribution_reaches_the_match_rate",
    "bench/test_tasks.py::test_all_tools_find_the_pairs_of_plain_loops",
    "bench/test_terms.py::test_all_tools_find_the_same_pairs_and_as_many_as_the_name_says",
    "cli/test_bench.py::test_pictures_are_drawn",
    "cli/test_run.py::test_what_spark_or_the_join_refuses_is_named",
    "index/test_ascending.py::test_large_pushes_count_what_cells_count",
    "index/test_ascending.py::test_large_pushes_find_what_cells_find",
    "index/test_ascending.py::test_large_pushes_of_open_ranges_find_what_trees_find",
    "index/test_bi_sort.py::test_a_larger_fan_out_leaves_fewer_runs",
    "index/test_conformance.py::test_all_cases",
    "index/test_conformance.py::test_every_question",
    "index/test_conformance.py::test_memory_does_not_depend_on_matches",
    "index/test_conformance.py::test_one_row_far_ahead_keeps_no_places_of_others",
    "index/test_conformance.py::test_pushes_of_all_sizes",
    "index/test_conformance.py::test_restarts",
    "index/test_conformance.py::test_rows_that_left_take_no_room",
    "index/test_pim_tree.py::test_threads_find_what_one_finds",
    "index/test_planar.py::test_counts_in_a_time_window_whatever_order_times_have",
    "index/test_planar.py::test_many_rows_as_sorted_runs_find_them",
    "index/test_rap_table.py::test_three_adjustments_are_enough",
    "index/test_runs.py::test_many_probes_of_skewed_and_wide_keys",
    "index/test_sharing.py::test_two_threads_find_what_one_does_again_and_again",
    "law/test_band_cells.py::test_fixed_streams",
    "law/test_band_cells.py::test_the_same_as_sorted_runs",
    "law/test_batch_invariance.py::test_two_cuts_give_the_same",
    "law/test_branches.py::test_long_streams_agree_with_every_row_against_every_row",
    "law/test_composite_keys.py::test_values_that_have_no_room_make_more",
    "law/test_deferred_searches.py::test_aggregates",
    "law/test_deferred_searches.py::test_nearest",
    "law/test_duckdb.py::test_count_window",
    "law/test_duckdb.py::test_slide_and_sizes_of_pushes",
    "law/test_duckdb.py::test_time_window",
    "law/test_edges.py::test_no_push_passes_the_memory_limit",
    "law/test_every_shape.py::test_every_type_in_every_shape",
    "spark/test_collations.py::test_keys_are_no_part_of_results",
    "spark/test_damage.py::test_lost_or_altered_state_never_changes_the_rows",
    "spark/test_wide_rows.py::test_small_blocks_and_frames_change_nothing",
}
"""Module and function."""


def leave_to_the_night(items: Iterable[pytest.Item]) -> None:
    """Mark two of three cases of these tests as nightly.

    Each test begins with another one of its first three cases, so that by day each structure is in some of the tests.
    """
    seen: Counter[str] = Counter()
    for item in items:
        name = item.nodeid.removeprefix("tests/").partition("[")[0]
        if name in DEAR and item.get_closest_marker("nightly") is None:
            if (seen[name] + crc32(name.encode())) % ONE_OF:
                item.add_marker(pytest.mark.nightly)
            seen[name] += 1
