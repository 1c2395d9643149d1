# cmake -DSOURCE=... -DORACLE=FOLDER [-DDO=...] -P oracle.cmake: checks that FOLDER/cute.txt is the output of FOLDER/cute.cpp, which is
# compiled against CUTLASS' headers. Since this takes most of a minute, it runs only once for each change: cute.sums holds the checksums of
# the inputs and of the output.
#   without DO       compares the sums
#   -DDO=recompute   compiles and runs cute.cpp, and compares its output with cute.txt
#   -DDO=bless       compiles and runs cute.cpp, and writes cute.txt and cute.sums
# The last two need -DWORK=... -DCXX=... [-DCUTLASS=...]: the headers are in the folder CUTLASS, or in the wheel nvidia-cutlass that
# scripts/setup has downloaded.
set(folder ${SOURCE}/tests/plan/${ORACLE})
file(STRINGS ${SOURCE}/scripts/setup cutlass REGEX "nvidia-cutlass==")
string(REGEX MATCH "nvidia-cutlass==[0-9.]+" cutlass "${cutlass}")
if(NOT cutlass)
  message(FATAL_ERROR "scripts/setup names no wheel nvidia-cutlass and its version")
endif()

function(sums_now result)
  set(sums "")
  foreach(path cute.cpp ../cute_kit.h cute.txt)
    file(SHA256 ${folder}/${path} sum)
    string(APPEND sums "${sum}  ${path}\n")
  endforeach()
  set(${result} "${sums}${cutlass}\n" PARENT_SCOPE)
endfunction()

if(NOT DO)
  sums_now(now)
  file(READ ${folder}/cute.sums written)
  if(NOT now STREQUAL written)
    message(FATAL_ERROR "${ORACLE}/cute.sums was written for other files than the current ones, which are\n${now}"
            "If ${ORACLE}/cute.txt should have CuTe's current output, run ninja -C build/release bless_${ORACLE}, and check the changes; "
            "ninja -C build/release recompute_${ORACLE} compares only.")
  endif()
  message("cute.txt and what it was made from are as they were when CuTe printed it")
  return()
endif()

if(NOT CUTLASS)
  set(CUTLASS ${WORK}/cutlass_library/source/include)
  string(REPLACE "nvidia-cutlass==" "nvidia_cutlass-" wheel ${cutlass})
  file(GLOB wheels ${SOURCE}/build/pycute/${wheel}-*.whl)
  if(wheels AND NOT EXISTS ${CUTLASS})
    list(GET wheels 0 wheel)
    file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${WORK} PATTERNS cutlass_library/source/include)
  endif()
endif()
if(NOT EXISTS ${CUTLASS}/cute/tensor.hpp)
  message("SKIPPED: no CUTLASS headers; scripts/setup fetches them, or set PTXBUILDER_CUTLASS_INCLUDE")
  return()
endif()
find_path(cuda cuda_runtime_api.h PATHS $ENV{CUDA_PATH}/include /usr/local/cuda/include NO_CACHE)
if(NOT cuda)
  message("SKIPPED: CUTLASS' headers need those of a CUDA toolkit; there is none in CUDA_PATH or /usr/local/cuda")
  return()
endif()
# g++ -O1 removes most of CuTe before it generates code, and takes half as long as -O0.
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${CXX} -std=c++17 -O1 -w -isystem ${CUTLASS} -isystem ${cuda} -isystem ${cuda}/cccl ${folder}/cute.cpp
                        -o ${WORK}/cute RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "cute.cpp does not compile")
endif()
# On the host, CuTe complains that it cannot convert an address of shared memory, and uses 0. This is intended.
execute_process(COMMAND ${WORK}/cute OUTPUT_VARIABLE printed RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "cute.cpp ends with ${failed}")
endif()
string(REGEX REPLACE "ERROR: cast_smem_ptr_to_uint not supported but used.\n" "" printed "${printed}")
if(DO STREQUAL bless)
  file(WRITE ${folder}/cute.txt "${printed}")
  sums_now(now)
  file(WRITE ${folder}/cute.sums "${now}")
endif()
file(READ ${folder}/cute.txt expected)
if(NOT printed STREQUAL expected)
  file(WRITE ${WORK}/cute.txt "${printed}")
  message(FATAL_ERROR "CuTe's output differs from cute.txt; see ${WORK}/cute.txt")
endif()
string(REGEX MATCHALL "\n" lines "${printed}")
list(LENGTH lines count)
message("${count} lines are as CuTe has them")
