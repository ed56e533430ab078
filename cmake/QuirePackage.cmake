# What an installed Quire consists of, and the Debian package made of it (`make package`).
#
# The package is built by the preset "package", which sets the prefix to /usr and has the program look
# for the bundled model in /var/lib/quire. Its dependencies come from dpkg-shlibdeps: the shared
# libraries of Debian 12 that the program is linked to.
include(GNUInstallDirs)
set(deploy ${PROJECT_SOURCE_DIR}/deploy)

# Debian wants these compressed, and without the time in the file.
set(installed ${PROJECT_BINARY_DIR}/installed)
file(MAKE_DIRECTORY ${installed})
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_custom_command(
  OUTPUT ${installed}/quire.1.gz
  COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/scripts/make_man_page.py $<TARGET_FILE:quire>
          ${deploy}/debian/quire.1.in ${installed}/quire.1
  COMMAND gzip -9nf ${installed}/quire.1
  DEPENDS quire ${deploy}/debian/quire.1.in ${PROJECT_SOURCE_DIR}/scripts/make_man_page.py)
add_custom_command(
  OUTPUT ${installed}/changelog.gz
  COMMAND gzip -9nc ${deploy}/debian/changelog > ${installed}/changelog.gz
  DEPENDS ${deploy}/debian/changelog)
# Completion of the command line, by the program itself, under the names that shells look for.
set(completions "")
foreach(shell IN ITEMS bash zsh fish)
  add_custom_command(
    OUTPUT ${installed}/completion.${shell}
    COMMAND $<TARGET_FILE:quire> completion ${shell} > ${installed}/completion.${shell}
    DEPENDS quire)
  list(APPEND completions ${installed}/completion.${shell})
endforeach()
add_custom_target(quire_manual ALL DEPENDS ${installed}/quire.1.gz ${installed}/changelog.gz
                                           ${completions})

install(TARGETS quire RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${installed}/quire.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${installed}/completion.bash RENAME quire
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${installed}/completion.zsh RENAME _quire
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${installed}/completion.fish RENAME quire.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${deploy}/debian/copyright ${PROJECT_SOURCE_DIR}/README.md
              ${PROJECT_SOURCE_DIR}/docs/server.md ${PROJECT_SOURCE_DIR}/docs/deployment.md
              ${installed}/changelog.gz
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${deploy}/grafana ${deploy}/prometheus ${deploy}/kubernetes ${deploy}/kserve
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES ${deploy}/debian/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
        RENAME quire)
install(FILES ${deploy}/systemd/quire.service ${deploy}/systemd/quire@.service
        DESTINATION lib/systemd/system)
# It may hold a key.
install(FILES ${deploy}/systemd/quire.env DESTINATION ${CMAKE_INSTALL_FULL_SYSCONFDIR}/quire
        PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME quire)
set(CPACK_PACKAGE_VENDOR Quire)
set(CPACK_PACKAGE_CONTACT "The authors of Quire <quire@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference and serving engine for large language models")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Quire runs a large language model on a CPU from its published files, in batches\n\
or behind an OpenAI-compatible API. Requests share the machine by continuous\n\
batching over a paged KV cache, and the same request gives the same tokens\n\
whatever else runs.\n\
\n\
This package has the program and its systemd services, but no model.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${deploy}/debian/conffiles ${deploy}/debian/postinst
                                       ${deploy}/debian/prerm ${deploy}/debian/postrm)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
                                                GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_BINARY_DIR})
include(CPack)
