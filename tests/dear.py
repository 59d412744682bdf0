"""Tests that take long: by day some cases of each run, at night all do.

They are those that took more than two seconds, which was most of the time of all tests. Cases differ by structure,
predicate or window. What runs at night alone has a relative by day, which is named beside it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BY_NIGHT", "DEAR", "leave_to_the_night"]

ONE_OF = 6
"""By day every sixth case runs, and of fewer one."""

DEAR = {
    "api/test_display.py::test_help_shows_the_public_names",
    "api/test_errors.py::test_whatever_an_argument_is_no_other_error_comes",
    "api/test_feed.py::test_results_are_those_of_one_push_a_put",
    "api/test_hostile_snapshots.py::test_numbers_of_joins",
    "api/test_hostile_snapshots.py::test_positions_of_nearest_answers",
    "api/test_pending.py::test_trimming_keeps_ordinals_and_blocks",
    "api/test_pending.py::test_waiting_changes_nothing",
    "api/test_read_once.py::test_every_row_of_every_source_arrives_once",
    "api/test_reused_memory.py::test_feeds_and_joins_of_many_streams",
    "api/test_reused_memory.py::test_results_are_those_of_memory_that_is_left_alone",
    "api/test_shedding.py::test_the_estimate_is_near_the_truth",
    "api/test_snapshot.py::test_expiry_goes_on_after_restore",
    "api/test_snapshot.py::test_restart_after_every_push",
    "api/test_threads.py::test_a_fork_while_other_threads_wait_for_each_other",
    "api/test_threads.py::test_an_iterator_that_another_thread_collects",
    "api/test_threads.py::test_pushes_of_many_threads_give_each_pair_once",
    "api/test_turns.py::test_streams_of_other_density_keep_up",
    "bench/test_cases.py::test_baselines_find_the_same_pairs",
    "bench/test_cases.py::test_every_output_is_checked",
    "bench/test_cases.py::test_other_options",
    "bench/test_streams.py::test_every_distribution_reaches_the_match_rate",
    "bench/test_streams.py::test_one_sided_ranges_reach_the_match_rate_too",
    "bench/test_tasks.py::test_all_tools_find_the_pairs_of_plain_loops",
    "bench/test_terms.py::test_all_tools_find_the_same_pairs_and_as_many_as_the_name_says",
    "bench/test_topologies.py::test_some_figures",
    "cli/test_bench.py::test_pictures_are_drawn",
    "cli/test_checking.py::test_mistakes_are_said_before_spark_starts",
    "cli/test_run.py::test_what_spark_or_the_join_refuses_is_named",
    "index/test_ascending.py::test_large_pushes_count_what_cells_count",
    "index/test_ascending.py::test_large_pushes_find_what_cells_find",
    "index/test_ascending.py::test_large_pushes_of_open_ranges_find_what_trees_find",
    "index/test_bi_sort.py::test_a_larger_fan_out_leaves_fewer_runs",
    "index/test_conformance.py::test_a_limit_of_memory_is_kept",
    "index/test_conformance.py::test_all_cases",
    "index/test_conformance.py::test_every_question",
    "index/test_conformance.py::test_memory_does_not_depend_on_matches",
    "index/test_conformance.py::test_one_row_far_ahead_keeps_no_places_of_others",
    "index/test_conformance.py::test_pushes_of_all_sizes",
    "index/test_conformance.py::test_restarts",
    "index/test_conformance.py::test_rows_that_left_take_no_room",
    "index/test_flooded_cells.py::test_chosen_keys_are_apart_soon",
    "index/test_parallel_search.py::test_streams_do_not_depend_on_threads",
    "index/test_pim_tree.py::test_threads_find_what_one_finds",
    "index/test_planar.py::test_counts_in_a_time_window_whatever_order_times_have",
    "index/test_planar.py::test_many_rows_as_sorted_runs_find_them",
    "index/test_rap_table.py::test_three_adjustments_are_enough",
    "index/test_runs.py::test_many_probes_of_skewed_and_wide_keys",
    "index/test_sharing.py::test_two_threads_find_what_one_does_again_and_again",
    "kernels/test_interpreted.py::test_a_first_example_answers_at_once_and_says_what_goes_on",
    "kernels/test_interpreted.py::test_a_kernel_that_is_compiled_while_the_user_waits_is_said",
    "kernels/test_placing.py::test_buckets_are_in_range_spread_out_and_the_same_in_plain_python",
    "kernels/test_spreading.py::test_a_stage_leaves_in_whole_lines",
    "kernels/test_spreading.py::test_many_pairs_over_several_stages",
    "kernels/test_warming.py::test_the_command_in_words",
    "law/test_band_cells.py::test_a_row_far_ahead_in_time_turns_the_table_into_runs",
    "law/test_band_cells.py::test_equalities_of_all_kinds_qualify",
    "law/test_band_cells.py::test_fixed_streams",
    "law/test_band_cells.py::test_tables_grow_and_stay_as_large_as_their_windows",
    "law/test_band_cells.py::test_the_same_as_sorted_runs",
    "law/test_band_cells.py::test_the_table_of_a_time_window_gets_smaller_once_it_was_too_large_for_a_window",
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
    "law/test_every_type.py::test_every_use_of_a_type_works_or_says_why_not",
    "law/test_extremes.py::test_whole_numbers_between_two_doubles",
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
    "law/test_names.py::test_a_name_is_taken_everywhere_or_refused_in_one_sentence",
    "law/test_nojit.py::test_fixed_streams_against_the_oracle",
    "law/test_null_constants.py::test_whole_numbers_by_nothing_are_null",
    "law/test_pairs.py::test_each_family_of_types",
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
    "law/test_snapshot.py::test_restart_between_pushes",
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
    "law/test_wide_decimals.py::test_any_index",
    "law/test_wide_decimals.py::test_nearest",
    "law/test_wide_decimals.py::test_pairs",
    "operator/fused/test_composite_keys.py::test_pushes_are_fused_while_values_have_room",
    "operator/fused/test_doubles.py::test_both_ways_are_one",
    "operator/fused/test_doubles.py::test_they_go_the_fused_way",
    "operator/fused/test_fused.py::test_a_large_push_of_one_side_finds_what_small_ones_left_in_the_buffer",
    "operator/fused/test_fused.py::test_both_ways_are_one",
    "operator/fused/test_fused.py::test_both_ways_are_one_over_time",
    "operator/fused/test_fused.py::test_other_whole_numbers_go_the_same_way",
    "operator/fused/test_partner.py::test_more_pairs_than_there_is_room_for",
    "operator/fused/test_partner.py::test_two_threads_find_what_one_finds",
    "operator/fused/test_small_push.py::test_both_ways_are_one",
    "operator/fused/test_small_push.py::test_most_small_pushes_are_taken_in_one_call",
    "operator/fused/test_terms.py::test_a_band_and_another_term_go_the_fused_way",
    "operator/fused/test_terms.py::test_a_push_that_is_probed_again_checks_terms_that_keys_do_not_say_all_about",
    "operator/fused/test_terms.py::test_both_ways_are_one",
    "operator/fused/test_terms.py::test_what_the_advisor_finds_goes_the_fused_way",
    "operator/ingest/test_other_types.py::test_a_column_of_nulls_alone",
    "operator/multiway/test_fused_chains.py::test_chains_are_taken_and_give_what_the_general_path_gives",
    "operator/multiway/test_fused_chains.py::test_time_windows",
    "operator/multiway/test_fused_chains.py::test_what_needs_a_check_or_an_expression_takes_the_general_path",
    "operator/test_index_advisor.py::test_composite_keys_change_too",
    "operator/test_join_operator.py::test_an_iterator_given_up_at_any_point_takes_all_rows",
    "operator/test_join_operator.py::test_many_tiny_pushes_leave_only_the_window",
    "operator/test_join_operator.py::test_one_row_from_far_ahead_does_not_keep_those_that_follow",
    "operator/test_join_operator.py::test_output_tables_are_bounded",
    "operator/test_join_operator.py::test_tiny_chunks_and_slices",
    "operator/test_many_pairs.py::test_twenty_million_pairs_stay_within_bounds",
    "operator/test_pair_advisor.py::test_the_index_follows_how_many_rows_are_equal",
    "operator/test_pair_advisor.py::test_the_index_follows_how_many_rows_are_in_the_band",
    "operator/test_pair_advisor.py::test_the_pair_follows_the_data",
    "operator/test_paths.py::test_every_hand_over_happens",
    "operator/test_wide_rows.py::test_a_push_of_more_than_arrow_holds_in_one_array",
    "operator/test_wide_rows.py::test_candidates_are_tried_within_the_limit",
    "operator/test_wide_rows.py::test_memory_is_bounded_whatever_a_push_finds",
    "operator/test_wide_rows.py::test_tables_are_bounded_and_together_the_same",
    "operator/topology/test_cell_join.py::test_a_worker_that_fails_ends_the_push",
    "plan/test_limits.py::test_a_conjunction_of_ors_costs_no_more_than_its_length",
    "plan/test_limits.py::test_deep_texts_are_refused",
    "plan/test_limits.py::test_long_chains_cost_no_more_than_their_length",
    "plan/test_limits.py::test_long_lists_of_both_sides_cost_little_a_constant",
    "plan/test_limits.py::test_many_values_of_one_operand_are_one_branch",
    "predicate/test_decimal_ranges.py::test_every_pair_is_in_one_range",
    "predicate/test_duckdb_extremes.py::test_every_value_is_that_of_duckdb",
    "predicate/test_duckdb_extremes.py::test_functions_of_whole_numbers_beyond_64_bits",
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
    "spark/test_branches.py::test_count_windows_agree_with_the_law",
    "spark/test_branches.py::test_counts_are_whole",
    "spark/test_collations.py::test_keys_are_no_part_of_results",
    "spark/test_composing.py::test_a_side_behind_another_stateful_operator_is_judged_by_the_watermark_before",
    "spark/test_composite.py::test_agrees_with_the_law",
    "spark/test_composite.py::test_counts_are_whole",
    "spark/test_count_windows.py::test_rows_may_arrive_in_the_order_of_texts",
    "spark/test_damage.py::test_lost_or_altered_state_never_changes_the_rows",
    "spark/test_damage.py::test_state_of_the_format_before_is_read",
    "spark/test_flat_state.py::test_state_is_flat_over_a_hundred_windows",
    "spark/test_homes.py::test_all_partners_of_a_row_are_at_its_home",
    "spark/test_index_choice.py::test_any_choice_gives_the_law_s_counts",
    "spark/test_index_choice.py::test_any_choice_gives_the_law_s_pairs",
    "spark/test_index_choice.py::test_any_choice_gives_the_rows_of_other_join_types",
    "spark/test_join_types.py::test_agrees_with_the_law",
    "spark/test_join_types.py::test_changes_of_different_attempts_fit_together",
    "spark/test_join_types.py::test_count_windows_agree_with_the_law",
    "spark/test_join_types.py::test_semi_joins_of_several_buckets_output_a_row_once",
    "spark/test_join_types.py::test_state_stays_bounded",
    "spark/test_join_types_on_spark.py::test_count_windows",
    "spark/test_join_types_on_spark.py::test_static_frames_are_one_micro_batch",
    "spark/test_late_output.py::test_each_late_row_comes_once",
    "spark/test_left_answers.py::test_agrees_with_the_law",
    "spark/test_left_answers.py::test_changes_of_different_attempts_fit_together",
    "spark/test_left_answers.py::test_count_windows_agree_with_the_law",
    "spark/test_left_answers.py::test_state_stays_bounded",
    "spark/test_left_answers_on_spark.py::test_static_frames_are_one_micro_batch",
    "spark/test_moving.py::test_answers_of_left_rows_go_on",
    "spark/test_moving.py::test_inner_joins_go_on_by_another_strategy",
    "spark/test_moving.py::test_joins_over_counts_go_on",
    "spark/test_moving.py::test_joins_over_time_go_on",
    "spark/test_moving.py::test_self_joins_go_on",
    "spark/test_operator.py::test_agrees_with_the_law",
    "spark/test_operator.py::test_counts_are_whole",
    "spark/test_operator.py::test_damaged_cache_is_built_again",
    "spark/test_planar.py::test_pairs_are_the_law_s_from_the_cache_and_without_it",
    "spark/test_routing.py::test_every_pair_meets_once",
    "spark/test_routing.py::test_self_joins_meet_once",
    "spark/test_sequencing.py::test_agrees_with_the_law",
    "spark/test_sequencing.py::test_counts_are_those_of_the_embedded_join",
    "spark/test_sequencing.py::test_micro_batches_larger_and_smaller_than_the_window",
    "spark/test_spark_types.py::test_types_are_keys",
    "spark/test_spark_types.py::test_types_that_are_refused",
    "spark/test_static.py::test_counts_are_whole",
    "spark/test_static.py::test_equals_the_oracle",
    "spark/test_static.py::test_expressions_are_keys_as_embedded",
    "spark/test_watching.py::test_counts_and_count_windows",
    "spark/test_wide_decimals.py::test_pairs",
    "spark/test_wide_rows.py::test_small_blocks_and_frames_change_nothing",
}
"""Module and function."""

BY_NIGHT = {
    # what a killed job leaves behind is moved aside in test_sink_files, and other processes are killed in test_killing
    "cli/test_killed_run.py::test_other_readers_find_each_pair_once_after_a_kill",
    # test_kernel_folders: folders of others, read-only ones, and without a home
    "kernels/test_kernel_folders.py::test_what_is_damaged_or_foreign_is_compiled_again",
    # test_a_first_example_answers_at_once_and_says_what_goes_on
    "kernels/test_interpreted.py::test_a_terminal_shows_how_far_it_is",
    "kernels/test_interpreted.py::test_kernels_may_be_mixed",
    # test_all_kernels_are_found_by_the_next_process
    "kernels/test_warming.py::test_processes_share_what_is_to_be_compiled",
    # other fixed streams are compared with sorted runs in test_band_cells
    "law/test_latest_rows.py::test_the_same_as_sorted_runs",
    # test_sides_side_by_side
    "operator/test_output.py::test_filters_in_stretches",
    # the same example in the session of test_readme_example
    "packaging/test_readme.py::test_the_example_on_spark_prints_what_the_readme_shows",
    # test_lost_or_altered_state_never_changes_the_rows
    "spark/test_damage.py::test_damaged_files_end_the_query_or_do_not_matter",
    # queries are started again in test_many_streams, test_late_output and test_repartition
    "spark/test_join_types_on_spark.py::test_each_micro_batch_is_that_of_the_law_also_after_a_restart",
    # distances are tried embedded, in test_nearest_values
    "spark/test_left_answers_on_spark.py::test_distances_of_doubles_are_exact_where_several_buckets_answer",
    # test_queries_go_on_with_other_buckets
    "spark/test_repartition.py::test_a_planned_micro_batch_runs_with_the_same_rows",
    # random rows are tried everywhere, and real ones embedded in law/test_real_data
    "spark/test_real_data.py::test_equals_duckdb",
    # test_types_pass_through_tables
    "spark/test_spark_types.py::test_types_pass_through_streams",
}
"""Those of which no case runs by day."""


def leave_to_the_night(items: Iterable[pytest.Item]) -> None:
    """Mark most cases of these tests as nightly.

    Each test begins with another one of its cases, so that by day each structure is in some of the tests.
    """
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        name = item.nodeid.removeprefix("tests/").partition("[")[0]
        if name in BY_NIGHT:
            item.add_marker(pytest.mark.nightly)
        elif name in DEAR and item.get_closest_marker("nightly") is None:
            cases[name].append(item)
    for name, every in cases.items():
        first = crc32(name.encode()) % min(ONE_OF, len(every))
        for place, item in enumerate(every):
            if (place - first) % ONE_OF:
                item.add_marker(pytest.mark.nightly)
