# Installs FILES, which are kernels of the project and the headers that they share, in the form of a user's files: in one folder, and with
# the library's headers under their installed names. cmake --install runs this file with SOURCE, WORK (a folder for generated files) and
# DESTINATION.
file(REMOVE_RECURSE ${WORK})
foreach(file IN LISTS FILES)
  file(READ ${SOURCE}/${file} text)
  foreach(other IN LISTS FILES)
    get_filename_component(name ${other} NAME)
    string(REPLACE "#include \"${other}\"" "#include \"${name}\"" text "${text}")
  endforeach()
  string(REGEX REPLACE "#include \"ptxbuilder/([^\"]*)\"" "#include <ptxbuilder/\\1>" text "${text}")
  string(REGEX REPLACE "#include \"((runtime|kernels)/[^\"]*)\"" "#include <ptxbuilder/\\1>" text "${text}")
  get_filename_component(name ${file} NAME)
  file(WRITE ${WORK}/${name} "${text}")
endforeach()
file(INSTALL ${WORK}/ DESTINATION ${DESTINATION})
