# ptxbuilder_add_kernel(NAME [FILE...]): the executable NAME of the kernel families that the files register
# (kernels/command/family.h). It lists, runs and verifies, times, emits and proves them: see NAME --help.
function(ptxbuilder_add_kernel name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE ptxbuilder::kernel_main)
endfunction()

# ptxbuilder_export(NAME KERNEL [BY TARGET] [WORD...]): the library NAME of C that launches a kernel, NAME.h with NAME_launch(),
# made by `ptxb export KERNEL WORD...` or, of a kernel of your own, by its executable TARGET. Users need the driver alone.
function(ptxbuilder_export name kernel)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "BY" "")
  if(NOT arg_BY)
    set(arg_BY ptxbuilder::ptxb)
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT C IN_LIST languages)
    message(FATAL_ERROR "ptxbuilder_export(${name}) makes C: add it to the languages of project()")
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_export)
  add_custom_command(OUTPUT ${folder}/${name}.c ${folder}/${name}.h
    COMMAND ${arg_BY} export ${kernel} ${arg_UNPARSED_ARGUMENTS} --name ${name} -o ${folder}
    DEPENDS ${arg_BY} VERBATIM)
  add_library(${name} STATIC ${folder}/${name}.c ${folder}/${name}.h)
  set_target_properties(${name} PROPERTIES C_STANDARD 11)
  target_include_directories(${name} PUBLIC ${folder})
  target_link_libraries(${name} PUBLIC ${CMAKE_DL_LIBS})
endfunction()
