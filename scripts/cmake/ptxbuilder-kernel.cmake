# ptxbuilder_add_kernel(NAME [FILE...]) adds the executable NAME with the kernel families that the files register (kernels/family/family.h).
# The executable runs, verifies, times, tunes, emits, proves and explains them: see NAME --help. The library's headers are precompiled once
# for all kernels of a project that are compiled with the same options, so that compiling after an edit takes half the time. To turn this
# off, set CMAKE_DISABLE_PRECOMPILE_HEADERS, or precompile headers for NAME yourself. Without a build type, the files are compiled with -O1.
# They contain the C++ reference that verifies a kernel. At -O0, this reference would run many times longer, and g++ would hardly compile
# faster.
function(ptxbuilder_add_kernel name)
  _ptxbuilder_needs("ptxbuilder_add_kernel(${name})" ptxbuilder::kernel_main kernels)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE ptxbuilder::kernel_main)
  if(NOT CMAKE_CXX_FLAGS MATCHES "(^| )-O")
    target_compile_options(${name} PRIVATE $<$<CONFIG:>:-O1>)
  endif()
  # Runs at the end of the folder, since compile and link options may be set until then.
  cmake_language(EVAL CODE "cmake_language(DEFER CALL _ptxbuilder_hasten [[${name}]])")
endfunction()

function(_ptxbuilder_hasten name)
  get_target_property(sources ${name} SOURCES)
  if(sources)
    _ptxbuilder_precompile(${name})
    _ptxbuilder_choose_linker(${name})
  endif()
endfunction()

# Links with lld or gold if one is installed, because they link LLVM's library in a tenth of a second, whereas ld.bfd takes most of a
# second. This does not apply if you name a linker, or to link-time optimization, which needs the compiler's own linker.
function(_ptxbuilder_choose_linker name)
  get_target_property(options ${name} LINK_OPTIONS)
  get_target_property(type ${name} LINKER_TYPE)
  get_target_property(optimized ${name} INTERPROCEDURAL_OPTIMIZATION)
  if(type OR optimized OR "${CMAKE_EXE_LINKER_FLAGS} ${CMAKE_CXX_FLAGS} ${options}" MATCHES "-fuse-ld|-flto")
    return()
  endif()
  _ptxbuilder_fast_linker(linker)
  target_link_options(${name} PRIVATE ${linker})
endfunction()

# Sets `result` to the option that chooses lld or gold, or to nothing if neither is installed.
function(_ptxbuilder_fast_linker result)
  include(CheckLinkerFlag)
  foreach(linker lld gold)
    check_linker_flag(CXX -fuse-ld=${linker} PTXBUILDER_LINKS_BY_${linker})
    if(PTXBUILDER_LINKS_BY_${linker})
      set(${result} -fuse-ld=${linker} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

# Precompiles the headers that kernels include, or reuses those of the first target that is compiled in the same way.
function(_ptxbuilder_precompile name)
  get_target_property(own ${name} PRECOMPILE_HEADERS)
  get_target_property(shared ${name} PRECOMPILE_HEADERS_REUSE_FROM)
  get_target_property(disabled ${name} DISABLE_PRECOMPILE_HEADERS)
  if(own OR shared OR disabled)
    return()
  endif()
  string(TOUPPER "CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE}" flags)
  set(compiled_by "${CMAKE_CXX_FLAGS} ${${flags}}")
  foreach(property COMPILE_DEFINITIONS COMPILE_FEATURES COMPILE_FLAGS COMPILE_OPTIONS CXX_EXTENSIONS CXX_STANDARD
          CXX_STANDARD_REQUIRED CXX_VISIBILITY_PRESET INCLUDE_DIRECTORIES INTERPROCEDURAL_OPTIMIZATION LINK_LIBRARIES
          POSITION_INDEPENDENT_CODE VISIBILITY_INLINES_HIDDEN)
    get_target_property(value ${name} ${property})
    string(APPEND compiled_by "\n${property} ${value}")
  endforeach()
  string(MD5 key "${compiled_by}")
  get_property(first GLOBAL PROPERTY _ptxbuilder_precompiled_${key})
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
    return()
  endif()
  set_property(GLOBAL PROPERTY _ptxbuilder_precompiled_${key} ${name})
  foreach(header ptxbuilder.h kernels/family/family.h kernels/family/run.h)
    target_precompile_headers(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:<ptxbuilder/${header}$<ANGLE-R>>")
  endforeach()
endfunction()

# ptxbuilder_emit(NAME KERNEL [BY TARGET] [WORD...]) adds the target NAME, part of `all`, which writes KERNEL.cubin, KERNEL.ptx and the
# sidecar KERNEL.json into the folder NAME of the build. The runtime, C and Python launch a kernel from these files. BY is described below.
function(ptxbuilder_emit name kernel)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "BY" "")
  _ptxbuilder_maker("ptxbuilder_emit(${name} ${kernel})" ${kernel} "${arg_BY}" maker)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  if(arg_BY)
    set(command ${maker} --emit ${folder})
  else()
    set(command ${maker} emit ${kernel} -o ${folder})
  endif()
  add_custom_command(OUTPUT ${folder}/${kernel}.json COMMAND ${command} ${arg_UNPARSED_ARGUMENTS} DEPENDS ${maker} VERBATIM)
  add_custom_target(${name} ALL DEPENDS ${folder}/${kernel}.json)
endfunction()

# ptxbuilder_export(NAME KERNEL [BY TARGET] [WORD...]) adds the C library NAME, which launches a kernel, with NAME.h and NAME_launch(). It
# is generated by `ptxb export KERNEL WORD...` or, for your own kernel, by its executable TARGET. Users of the library need only the driver.
function(ptxbuilder_export name kernel)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "BY" "")
  set(call "ptxbuilder_export(${name} ${kernel})")
  _ptxbuilder_maker("${call}" ${kernel} "${arg_BY}" maker)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT C IN_LIST languages)
    message(FATAL_ERROR "${call} makes C: add it to the languages of project()")
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_export)
  add_custom_command(OUTPUT ${folder}/${name}.c ${folder}/${name}.h
    COMMAND ${maker} export ${kernel} ${arg_UNPARSED_ARGUMENTS} --name ${name} -o ${folder}
    DEPENDS ${maker} VERBATIM)
  add_library(${name} STATIC ${folder}/${name}.c ${folder}/${name}.h)
  set_target_properties(${name} PROPERTIES C_STANDARD 11)
  target_include_directories(${name} PUBLIC ${folder})
  target_link_libraries(${name} PUBLIC ${CMAKE_DL_LIBS})
endfunction()

function(_ptxbuilder_needs call target component)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${call} needs ${target}, which is not known in this folder: here or above it, ask for "
                        "find_package(ptxbuilder REQUIRED COMPONENTS ${component} ...)")
  endif()
endfunction()

# Sets `result` to the program that writes the kernel: the executable `by`, or ptxb if `by` is empty.
function(_ptxbuilder_maker call kernel by result)
  if(by)
    # Runs at the end of the folder, since the target may be added until then.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL _ptxbuilder_check_maker [[${call}]] [[${by}]])")
  else()
    set(by ptxbuilder::ptxb)
    _ptxbuilder_needs("${call}" ptxbuilder::ptxb tools)
    _ptxbuilder_check_kernel("${call}" ${kernel})
  endif()
  set(${result} ${by} PARENT_SCOPE)
endfunction()

function(_ptxbuilder_check_maker call target)
  set(type nothing)
  if(TARGET ${target})
    get_target_property(type ${target} TYPE)
  endif()
  if(NOT type STREQUAL "EXECUTABLE")
    message(FATAL_ERROR "${call}: BY ${target} names no executable of this folder or one above it; add it by "
                        "ptxbuilder_add_kernel(${target} FILE...)")
  endif()
endfunction()

# This ptxb is already built.
function(_ptxbuilder_check_kernel call kernel)
  get_target_property(imported ptxbuilder::ptxb IMPORTED)
  if(NOT imported)
    return()
  endif()
  get_target_property(ptxb ptxbuilder::ptxb LOCATION)
  execute_process(COMMAND ${ptxb} list OUTPUT_VARIABLE lines)
  string(REGEX MATCHALL "[^\n]+" lines "${lines}")
  list(TRANSFORM lines REPLACE " .*" "" OUTPUT_VARIABLE kernels)
  if(NOT kernel IN_LIST kernels)
    list(JOIN kernels " " kernels)
    message(FATAL_ERROR "${call}: ptxb has no kernel '${kernel}', but ${kernels}; of your own, say BY which executable")
  endif()
endfunction()
