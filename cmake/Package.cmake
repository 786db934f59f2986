# A Debian package of what is installed: cpack --config build/default/CPackConfig.cmake
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/zenflow-sim RENAME copyright)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME zenflow-sim)
set(CPACK_PACKAGE_CONTACT "the zenflow-sim authors <noreply@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# Packages that have the libraries which programs are linked to, from dpkg-shlibdeps.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
