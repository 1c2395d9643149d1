# cmake -DSOURCE=... -P layers.cmake checks that a folder includes only folders above it in this list, and that no public header exposes
# LLVM, fmt or JSON to its users.
cmake_policy(SET CMP0057 NEW)
set(layers ptxbuilder ptxbuilder/isa/manual ptxbuilder/isa ptxbuilder/isa/print ptxbuilder/ptx ptxbuilder/analysis ptxbuilder/layout ptxbuilder/plan ptxbuilder/proof ptxbuilder/ir ptxbuilder/tile
    ptxbuilder/registers ptxbuilder/product ptxbuilder/compile
    runtime/glibc runtime runtime/compile runtime/emulator/machine runtime/emulator/checks runtime/emulator/decode runtime/emulator/instructions runtime/emulator runtime/record
    kernels/family kernels/call kernels/rows kernels/ranks kernels/gemm kernels/steps kernels/attention kernels/attention_gradient kernels/measure kernels/tune kernels/export kernels/simulate
    kernels/inspect kernels/command kernels/bench/peers kernels/bench kernels/c kernels/python/src tests)
# Some folders have their own rules. The runtime may include the base and the machine's limits, and the PTX text only the base. A folder of
# kernels/ may include the library and the listed folders. Only folders that examine PTX may include the PTX text and its analysis. The
# instruction table may include the PTX text, because it recognises instructions there.
set(library ${layers})
list(FILTER library EXCLUDE REGEX "^kernels/|^tests|^ptxbuilder/(ptx|analysis)$")
set(allowed_runtime/glibc runtime/glibc)
set(allowed_runtime ptxbuilder ptxbuilder/isa runtime runtime/emulator)
set(allowed_runtime/emulator/machine ptxbuilder ptxbuilder/isa runtime runtime/emulator runtime/emulator/machine)
set(allowed_runtime/emulator/checks ${allowed_runtime/emulator/machine} runtime/emulator/checks)
set(allowed_runtime/emulator/decode ${allowed_runtime/emulator/machine} ptxbuilder/ptx runtime/emulator/decode)
set(allowed_runtime/emulator/instructions ${allowed_runtime/emulator/decode} runtime/emulator/instructions)
set(allowed_runtime/emulator ${allowed_runtime/emulator/instructions})
set(allowed_runtime/record ptxbuilder ptxbuilder/ptx ptxbuilder/compile runtime runtime/emulator runtime/record)
set(allowed_ptxbuilder/ptx ptxbuilder ptxbuilder/ptx)
set(allowed_ptxbuilder/isa ptxbuilder ptxbuilder/isa/manual ptxbuilder/isa ptxbuilder/ptx)
set(allowed_ptxbuilder/analysis ptxbuilder ptxbuilder/isa ptxbuilder/ptx ptxbuilder/analysis)
set(allowed_runtime/compile ptxbuilder ptxbuilder/compile ptxbuilder/tile runtime runtime/emulator runtime/compile)
foreach(room "family" "call" "rows family call" "ranks rows call" "gemm family call" "steps family gemm" "attention family gemm call" "attention_gradient family attention gemm call" "measure family gemm"
        "tune family gemm attention steps measure" "export family" "simulate" "inspect family"
        "command family gemm attention measure tune export simulate inspect" "bench/peers measure" "bench family gemm measure tune c bench/peers"
        "c call rows ranks gemm attention attention_gradient" "python/src c gemm attention")
  string(REPLACE " " ";" words ${room})
  list(GET words 0 name)
  list(TRANSFORM words PREPEND kernels/)
  set(allowed_kernels/${name} ${library} ${words})
endforeach()
list(APPEND allowed_kernels/simulate ptxbuilder/ptx ptxbuilder/analysis)
list(APPEND allowed_kernels/inspect ptxbuilder/ptx ptxbuilder/analysis)
list(APPEND allowed_kernels/command ptxbuilder/ptx ptxbuilder/analysis)
set(private_headers ptxbuilder/ir/state.h ptxbuilder/json_text.h)
set(umbrella ptxbuilder/ptxbuilder.h)  # includes all, and no folder includes it
set(doors ${umbrella} ptxbuilder/llvm.h)  # for users, above the folders to which they lead
set(problems "")

file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/ptxbuilder/*.h ${SOURCE}/ptxbuilder/*.cpp ${SOURCE}/runtime/*.h
     ${SOURCE}/runtime/*.cpp ${SOURCE}/kernels/*.h ${SOURCE}/kernels/*.cpp)
list(FILTER files EXCLUDE REGEX "/examples/")  # projects of users
set(checked 0)
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  if(NOT folder IN_LIST layers)
    list(APPEND problems "${file}: the folder ${folder} is not a layer")
  endif()
  if(DEFINED allowed_${folder})
    set(allowed ${allowed_${folder}})
  else()
    list(FIND layers ${folder} index)
    math(EXPR count "${index} + 1")
    list(SUBLIST layers 0 ${count} allowed)
    list(REMOVE_ITEM allowed ptxbuilder/ptx ptxbuilder/analysis)
  endif()
  file(STRINGS ${SOURCE}/${file} once REGEX "std::call_once\\(")
  if(once)
    list(APPEND problems "${file}: std::call_once, which ends the process if its function throws; see runtime/lazy.h")
  endif()
  file(STRINGS ${SOURCE}/${file} includes REGEX "^#include [\"<]")
  foreach(line ${includes})
    math(EXPR checked "${checked} + 1")
    if(line MATCHES "^#include \"([^\"]*)/[^/\"]*\"")
      set(from ${CMAKE_MATCH_1})
      if(line MATCHES "\"${umbrella}\"")
        list(APPEND problems "${file}: includes ${umbrella}, which is for the library's users")
      elseif(NOT from IN_LIST allowed AND NOT file IN_LIST doors)
        list(APPEND problems "${file}: includes from ${from}, which is not above ${folder}")
      endif()
    elseif(line MATCHES "<(llvm|fmt|nlohmann)/" AND file MATCHES "\\.h$" AND NOT file IN_LIST private_headers)
      list(APPEND problems "${file}: a public header with ${line}")
    endif()
    if(line MATCHES "<llvm/" AND NOT folder STREQUAL "ptxbuilder/ir" AND NOT file STREQUAL "ptxbuilder/compile/codegen.cpp")
      list(APPEND problems "${file}: only ptxbuilder/ir and code generation may use LLVM")
    endif()
  endforeach()
endforeach()
if(checked LESS 200)
  message(FATAL_ERROR "only ${checked} includes were found: the check itself is broken")
endif()
list(JOIN problems "\n" text)
if(problems)
  message(FATAL_ERROR "${text}")
endif()
message("${checked} includes keep the layers")
