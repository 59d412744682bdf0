"""Tests whose cases take long together: by day every third case of each runs, at night all do.

They are those that took more than two seconds with three cases or more, half of the time of all tests. Cases differ by
structure, predicate or window.
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
    "bench/test_streams.py::test_one_sided_ranges_reach_the_match_rate_too",
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
    "kernels/test_placing.py::test_buckets_are_in_range_spread_out_and_the_same_in_plain_python",
    "kernels/test_spreading.py::test_many_pairs_over_several_stages",
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
    "law/test_every_shape.py::test_kinds_that_do_not_mix_in_every_shape",
    "law/test_flat_memory.py::test_memory_is_flat_over_a_hundred_windows",
    "law/test_idle_sides.py::test_idle_sides_against_the_law",
    "law/test_intervals.py::test_long_intervals_come_and_leave",
    "law/test_intervals.py::test_pushes_of_any_size",
    "law/test_join_types.py::test_fused_and_general_are_one",
    "law/test_join_types.py::test_memory_is_flat",
    "law/test_late_rows.py::test_late_rows_are_those_of_the_law",
    "law/test_latest_rows.py::test_rows_are_queued_later_while_they_come_in_order",
    "law/test_latest_rows.py::test_streams_in_order_need_no_index",
    "law/test_long_streams.py::test_long_streams",
    "law/test_long_streams.py::test_rows_of_one_hot_key_leave",
    "law/test_long_streams.py::test_rows_that_left_stay_away_from_another_algorithm",
    "law/test_nojit.py::test_fixed_streams_against_the_oracle",
    "law/test_null_constants.py::test_whole_numbers_by_nothing_are_null",
    "law/test_pairs.py::test_every_algorithm",
    "law/test_real_data.py::test_all_counts",
    "law/test_real_data.py::test_all_pairs",
    "law/test_real_data.py::test_counts_of_a_time_window",
    "law/test_real_data.py::test_pairs_of_a_count_window",
    "law/test_real_data.py::test_pairs_of_a_time_window",
    "law/test_row_values.py::test_pairs_are_those_of_another_engine",
    "law/test_row_values.py::test_self_joins",
    "law/test_row_values.py::test_windows_outputs_and_join_types",
    "law/test_snapshot.py::test_restart_after_sub_windows_have_left",
    "law/test_text_codes.py::test_names_that_come_and_go",
    "law/test_topologies.py::test_a_core_that_fails_ends_the_push",
    "law/test_topologies.py::test_a_limit_of_memory_is_kept",
    "law/test_topologies.py::test_against_the_oracle",
    "law/test_topologies.py::test_any_index_inside",
    "law/test_topologies.py::test_cells_inside",
    "law/test_topologies.py::test_positions_and_counts",
    "law/test_topologies.py::test_pushes_of_all_sizes",
    "law/test_topologies.py::test_restarts_between_topologies",
    "law/test_topologies.py::test_rows_that_left_take_no_room",
    "law/test_topologies.py::test_tables_of_a_push_that_may_be_closed_early",
    "law/test_types.py::test_comparison",
    "law/test_wide_decimals.py::test_nearest",
    "law/test_wide_decimals.py::test_pairs",
    "operator/fused/test_composite_keys.py::test_pushes_are_fused_while_values_have_room",
    "operator/fused/test_doubles.py::test_they_go_the_fused_way",
    "operator/fused/test_fused.py::test_both_ways_are_one",
    "operator/fused/test_fused.py::test_both_ways_are_one_over_time",
    "operator/fused/test_partner.py::test_two_threads_find_what_one_finds",
    "operator/fused/test_small_push.py::test_both_ways_are_one",
    "operator/fused/test_terms.py::test_a_band_and_another_term_go_the_fused_way",
    "operator/fused/test_terms.py::test_a_push_that_is_probed_again_checks_terms_that_keys_do_not_say_all_about",
    "operator/fused/test_terms.py::test_both_ways_are_one",
    "operator/fused/test_terms.py::test_what_the_advisor_finds_goes_the_fused_way",
    "operator/multiway/test_fused_chains.py::test_chains_are_taken_and_give_what_the_general_path_gives",
    "operator/multiway/test_fused_chains.py::test_time_windows",
    "operator/test_join_operator.py::test_an_iterator_given_up_at_any_point_takes_all_rows",
    "operator/test_join_operator.py::test_output_tables_are_bounded",
    "operator/test_join_operator.py::test_tiny_chunks_and_slices",
    "operator/test_pair_advisor.py::test_the_index_follows_how_many_rows_are_equal",
    "operator/test_pair_advisor.py::test_the_pair_follows_the_data",
    "operator/test_wide_rows.py::test_a_push_of_more_than_arrow_holds_in_one_array",
    "operator/test_wide_rows.py::test_memory_is_bounded_whatever_a_push_finds",
    "operator/test_wide_rows.py::test_tables_are_bounded_and_together_the_same",
    "plan/test_limits.py::test_a_conjunction_of_ors_costs_no_more_than_its_length",
    "plan/test_limits.py::test_deep_texts_are_refused",
    "plan/test_limits.py::test_long_lists_of_both_sides_cost_little_a_constant",
    "plan/test_limits.py::test_many_values_of_one_operand_are_one_branch",
    "predicate/test_decimal_ranges.py::test_every_pair_is_in_one_range",
    "predicate/test_duckdb_extremes.py::test_every_value_is_that_of_duckdb",
    "predicate/test_members.py::test_lists_of_both_sides_are_ranges",
    "predicate/test_members.py::test_pairs_are_those_of_the_law",
    "predicate/test_members.py::test_what_is_kept_is_what_short_lists_were",
    "predicate/test_pair_programs.py::test_a_program_changes_no_result",
    "predicate/test_shifts.py::test_ranges_are_those_of_the_general_way",
    "rows/test_gather.py::test_rows_of_any_pieces_are_those_of_the_whole",
    "rows/test_text.py::test_rows_are_those_that_arrow_takes",
    "rows/test_widths.py::test_widths_are_those_of_the_values",
    "spark/test_attempts.py::test_changes_of_different_attempts_fit_together",
    "spark/test_branches.py::test_agrees_with_the_law",
    "spark/test_branches.py::test_counts_are_whole",
    "spark/test_collations.py::test_keys_are_no_part_of_results",
    "spark/test_composite.py::test_agrees_with_the_law",
    "spark/test_composite.py::test_counts_are_whole",
    "spark/test_damage.py::test_lost_or_altered_state_never_changes_the_rows",
    "spark/test_homes.py::test_all_partners_of_a_row_are_at_its_home",
    "spark/test_index_choice.py::test_any_choice_gives_the_law_s_counts",
    "spark/test_index_choice.py::test_any_choice_gives_the_law_s_pairs",
    "spark/test_join_types.py::test_agrees_with_the_law",
    "spark/test_join_types.py::test_changes_of_different_attempts_fit_together",
    "spark/test_join_types.py::test_count_windows_agree_with_the_law",
    "spark/test_join_types.py::test_semi_joins_of_several_buckets_output_a_row_once",
    "spark/test_late_output.py::test_each_late_row_comes_once",
    "spark/test_left_answers.py::test_agrees_with_the_law",
    "spark/test_left_answers.py::test_count_windows_agree_with_the_law",
    "spark/test_moving.py::test_answers_of_left_rows_go_on",
    "spark/test_moving.py::test_inner_joins_go_on_by_another_strategy",
    "spark/test_moving.py::test_joins_over_counts_go_on",
    "spark/test_moving.py::test_joins_over_time_go_on",
    "spark/test_moving.py::test_self_joins_go_on",
    "spark/test_operator.py::test_agrees_with_the_law",
    "spark/test_operator.py::test_counts_are_whole",
    "spark/test_operator.py::test_damaged_cache_is_built_again",
    "spark/test_routing.py::test_every_pair_meets_once",
    "spark/test_routing.py::test_self_joins_meet_once",
    "spark/test_sequencing.py::test_agrees_with_the_law",
    "spark/test_sequencing.py::test_counts_are_those_of_the_embedded_join",
    "spark/test_static.py::test_equals_the_oracle",
    "spark/test_static.py::test_expressions_are_keys_as_embedded",
    "spark/test_wide_decimals.py::test_pairs",
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
