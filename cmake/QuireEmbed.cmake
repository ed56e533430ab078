# quire_embed(<target> <header> <folder> <libraries>)
#
# Puts the files of a folder (web pages: .html, .css, .js, .svg) into the program, and those that the
# script <libraries> makes of installed packages. The style sheets and plain scripts that an .html file
# names become part of it: a browser paints nothing before it has all of them. A source generated in the
# build folder defines `embedded_files()`, which <header>, relative to src/, declares. Each file carries
# an entity tag made from its content.
function(quire_embed target header folder libraries)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg)
  get_filename_component(name ${header} NAME_WE)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}_data.cpp)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${name}_libraries)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  list(JOIN files "|" file_list)
  # The licences are what the script writes last.
  add_custom_command(
    OUTPUT ${made}/licences.txt
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${made}
    COMMAND ${Python3_EXECUTABLE} -B ${libraries} ${made}
    DEPENDS ${libraries}
    COMMENT "Collecting the page's libraries and fonts"
    VERBATIM)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${file_list}" -DFOLDER=${made} -DHEADER=${header} -DOUTPUT=${source}
            -P ${script}
    DEPENDS ${files} ${made}/licences.txt ${script}
    COMMENT "Embedding ${folder}"
    VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
