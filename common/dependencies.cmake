# Third-party libraries, all from Debian packages (deploy/setup installs them).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(EXPAT REQUIRED IMPORTED_TARGET expat)
pkg_check_modules(RAFT REQUIRED IMPORTED_TARGET raft)
find_path(ROCKSDB_INCLUDE rocksdb/c.h REQUIRED)
find_library(ROCKSDB_LIBRARY rocksdb REQUIRED)
find_library(INIH_LIBRARY inih REQUIRED)
find_library(JEMALLOC_LIBRARY jemalloc)
find_program(PROTOC_C NAMES protoc-c REQUIRED)

# llhttp: the C sources in Debian's node-llhttp.
find_path(LLHTTP_INCLUDE llhttp.h PATHS /usr/share/include/llhttp REQUIRED)
find_path(LLHTTP_SOURCE llhttp.c PATHS /usr/share/llhttp REQUIRED)
add_library(llhttp STATIC ${LLHTTP_SOURCE}/api.c ${LLHTTP_SOURCE}/http.c ${LLHTTP_SOURCE}/llhttp.c)
target_include_directories(llhttp SYSTEM PUBLIC ${LLHTTP_INCLUDE})
target_compile_definitions(llhttp PUBLIC LLHTTP_STRICT_MODE=1) # the sources hold a lenient parser too
set_target_properties(llhttp PROPERTIES POSITION_INDEPENDENT_CODE ON)
