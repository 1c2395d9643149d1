# ptxbuilder_add_kernel(NAME [FILE...]): the executable NAME of the kernel families that the files register
# (kernels/command/family.h). It lists, runs and verifies, times, emits and proves them: see NAME --help.
function(ptxbuilder_add_kernel name)
  _ptxbuilder_needs("ptxbuilder_add_kernel(${name})" ptxbuilder::kernel_main kernels)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE ptxbuilder::kernel_main)
endfunction()

# ptxbuilder_emit(NAME KERNEL [BY TARGET] [WORD...]): the target NAME, part of `all`, which writes KERNEL.cubin, KERNEL.ptx and the
# sidecar KERNEL.json into the folder NAME of the build: what the runtime, C and Python launch a kernel from. BY as below.
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

# ptxbuilder_export(NAME KERNEL [BY TARGET] [WORD...]): the library NAME of C that launches a kernel, NAME.h with NAME_launch(),
# made by `ptxb export KERNEL WORD...` or, of a kernel of your own, by its executable TARGET. Users need the driver alone.
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

# Sets `result` to what writes the kernel: the executable `by`, or ptxb where that is empty.
function(_ptxbuilder_maker call kernel by result)
  if(by)
    # At the end of the folder, up to which the target may be added.
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

# Of a ptxb that is built already.
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
