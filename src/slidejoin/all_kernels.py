"""All modules that have kernels: importing this one lets `slidejoin.jit.warming` compile everything.

Whoever adds a module of kernels adds it here; a test finds one that is missing.
"""
# ruff: noqa: F401 - imported for their kernels

from __future__ import annotations

import slidejoin.index.at_rest.kernels.boxes
import slidejoin.index.cells.kernels.probing
import slidejoin.index.cells.kernels.table
import slidejoin.index.kernels.ages
import slidejoin.index.kernels.arrival_pairs
import slidejoin.index.kernels.expansion
import slidejoin.index.kernels.found_rows
import slidejoin.index.kernels.range_ends
import slidejoin.index.kernels.range_search
import slidejoin.index.kernels.searching
import slidejoin.index.kernels.view
import slidejoin.index.planar.kernels.building
import slidejoin.index.planar.kernels.counting
import slidejoin.index.planar.kernels.reporting
import slidejoin.index.sorted_runs.kernels.ascending
import slidejoin.index.sorted_runs.kernels.buffering
import slidejoin.index.sorted_runs.kernels.further
import slidejoin.index.sorted_runs.kernels.matches
import slidejoin.index.sorted_runs.kernels.merging
import slidejoin.index.sorted_runs.kernels.nearest
import slidejoin.index.sorted_runs.kernels.ordered_counts
import slidejoin.index.sorted_runs.kernels.probe_order
import slidejoin.index.sorted_runs.kernels.reducing
import slidejoin.index.sorted_runs.kernels.summarising
import slidejoin.index.sorted_runs.kernels.visibility
import slidejoin.index.union.kernels.earlier
import slidejoin.jit.vectors.doubles
import slidejoin.jit.vectors.shifting
import slidejoin.jit.vectors.sorting
import slidejoin.operator.deferred.kernels.intervals
import slidejoin.operator.fused.kernels.packing
import slidejoin.operator.fused.kernels.pushing
import slidejoin.operator.fused.kernels.run_probes
import slidejoin.operator.fused.kernels.small_push
import slidejoin.operator.fused.kernels.work
import slidejoin.operator.ingest.kernels.clocks
import slidejoin.operator.ingest.kernels.ordering
import slidejoin.operator.kernels.conditions
import slidejoin.operator.kernels.joining
import slidejoin.operator.kernels.matched
import slidejoin.operator.kernels.probe_matches
import slidejoin.operator.multiway.kernels.chaining
import slidejoin.operator.multiway.kernels.widening
import slidejoin.operator.window.kernels.keyed_records
import slidejoin.operator.window.kernels.latest_rows
import slidejoin.papers.cell_join.kernels.hash_buckets
import slidejoin.papers.cell_join.kernels.narrowed
import slidejoin.papers.kernels.sealed_dims
import slidejoin.papers.kernels.walking
import slidejoin.papers.panjoin.kernels.llat
import slidejoin.papers.panjoin.kernels.rap_table
import slidejoin.papers.panjoin.kernels.wib_tree
import slidejoin.papers.pim_tree.kernels.bplus_probing
import slidejoin.papers.pim_tree.kernels.bplus_tree
import slidejoin.papers.pim_tree.kernels.chains
import slidejoin.papers.pim_tree.kernels.css_tree
import slidejoin.papers.pim_tree.kernels.im_merging
import slidejoin.papers.pim_tree.kernels.im_tree
import slidejoin.papers.pim_tree.kernels.pim_tree
import slidejoin.papers.pim_tree.kernels.subindexes
import slidejoin.papers.split_join.kernels.gathering
import slidejoin.papers.spo_join.kernels.permuting
import slidejoin.papers.spo_join.kernels.probing
import slidejoin.papers.spo_join.kernels.sets
import slidejoin.plan.kernels.closed_ranges
import slidejoin.plan.kernels.packing
import slidejoin.predicate.kernels.ends
import slidejoin.predicate.kernels.hashing
import slidejoin.predicate.kernels.instructions
import slidejoin.rows.kernels.batch_rows
import slidejoin.rows.kernels.gathering
import slidejoin.rows.kernels.record_columns
import slidejoin.rows.kernels.text_table
