# quire_embed(<target> <header> <folder>)
#
# Puts the files of a folder (web pages: .html, .css, .js, .svg) into the program. A source generated
# in the build folder defines `embedded_files()`, which <header>, relative to src/, declares. Each
# file carries an entity tag made from its content.
function(quire_embed target header folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg)
  get_filename_component(name ${header} NAME_WE)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}_data.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake)
  list(JOIN files "|" file_list)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${file_list}" -DHEADER=${header} -DOUTPUT=${source} -P ${script}
    DEPENDS ${files} ${script}
    COMMENT "Embedding ${folder}"
    VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
