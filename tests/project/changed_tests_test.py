"""Checks that scripts/changed_tests.py chooses the tests that a change of a file can affect, and no others.

  changed_tests_test.py BUILD TOP
"""
import sys

build, top = sys.argv[1:]
sys.path.insert(0, f"{top}/scripts")
import changed_tests  # noqa: E402

# Each case has a file, tests that it can affect, and tests that it cannot affect.
CASES = [
    ("README.md", "readme words", "value_test format golden_test"),
    ("tests/ir/value_test.cpp", "value_test format", "region_test ptx_test words_test"),
    ("tests/kit/library_kit.h", "value_test region_test", "launch_rule_test run_hello"),
    ("ptxbuilder/ptx/parser.cpp", "ptx_test lint_test emulator_gemm_test words_test run_hello python_numpy", "layout_test isa_test"),
    ("ptxbuilder/tile/pipeline.cpp", "golden_test lent_stage_test run_hello export_test", "ptx_test emulator_gemm_test"),
    ("ptxbuilder/tile/pipeline.h", "compile_fail_test package_library golden_test", "ptx_test"),
    ("kernels/steps/saxpy.cpp", "run_saxpy golden_test words_test lint", "lint_finds run_hello matmul_test python_jax value_test"),
    ("kernels/gemm/matmul.cpp", "matmul_test python_jax_product", "attention_test run_hello run_saxpy value_test"),
    ("kernels/gemm/kernel.cpp", "matmul_test gemm_random_test run_gemm_m_300_n_520_k_320_sms_2",
     "attention_gradient_test run_attention_queries_1_keys_1_depth_64_heads_1 explain sass_command_test python_attention python_wheel "
     "attention_mutants_test emulator_families_test proof_test analysis_corpus_nvcc mlir_test sim_gemm cuda_kernels "
     "isa_command_test"),
    ("kernels/rows/softmax.cpp", "run_rows_softmax_rows_5_columns_9000 rows_call_test golden_test ranked_norm_test python_rows",
     "run_rows_rms_norm_rows_30_columns_99 ranks_test command_test words_test python_numpy analysis_corpus_ours matmul_test"),
    ("kernels/rows/row_sums.cpp", "run_rows_rms_norm_gradient_rows_140_columns_4501", "ranks_test"),
    ("runtime/emulator/machine/cluster.cpp", "cuda_kernels mlir_test sim_gemm run_hello matmul_test python_numpy", "layout_test isa_test"),
    ("kernels/attention/consumer.h", "attention_test golden_test python_attention python_jax attention_mutants_test proof_families_test",
     "python_jax_product matmul_test lint_prove diff_same gemm_mutants_test sidecar_emit"),
    ("kernels/command/explain.cpp", "explain command_test python_wheel", "explain_choice lint diff_same run_gemm_m_300_n_520_k_320_sms_2"),
    ("kernels/command/explain_choice_command.cpp", "explain_choice", "lint"),
    ("scripts/changed_tests.py", "changed_tests_test", "package_installed format"),
    ("kernels/python/ptxbuilder/__init__.py", "python_jax python_numpy", "value_test words_test"),
    ("tests/project/misuse/compile_fail.cpp", "compile_fail_test", "value_test"),
]

reads = changed_tests.reads_of_all(build)
problems = []
for path, affected, others in CASES:
    chosen = {name for name, read in reads.items() if changed_tests.affects(f"{top}/{path}", read)}
    for name in affected.split():
        if name in reads and name not in chosen:
            problems.append(f"{path} can affect {name}, which is not chosen")
    problems += [f"{path} cannot affect {name}, which is chosen" for name in others.split() if name in chosen]
print("\n".join(problems) or f"{len(reads)} tests, {len(CASES)} files: the tests that each can affect are chosen")
sys.exit(bool(problems))
