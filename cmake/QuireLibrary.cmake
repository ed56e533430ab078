# quire_compile_by_folder(<target> <sources...>)
#
# Compiles the sources of each folder together (a unity build), so that headers are parsed and
# templates instantiated once a folder; folders of a target that have few sources are one together.
# What files have in their unnamed namespaces is then seen by the others: names there are unique
# among what is compiled together. Sources with flags of their own are compiled apart.
# -DQUIRE_COMPILE_BY_FOLDER=OFF (preset "dev") compiles file by file.
function(quire_compile_by_folder target)
  if(NOT QUIRE_COMPILE_BY_FOLDER)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # A type in a file's unnamed namespace may be a member of another type of that file.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    cmake_path(GET source PARENT_PATH folder)
    list(APPEND folders ${folder})
    list(APPEND files_of_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    list(LENGTH files_of_${folder} count)
    if(count LESS 14)
      set(group ${target}_small_folders)
    else()
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE group)
    endif()
    string(MAKE_C_IDENTIFIER ${group} group)
    set_source_files_properties(${files_of_${folder}} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# quire_test_program(<target>)
#
# What all programs of tests have in common. Except where tests themselves compute for long
# (COMPUTES), a release compiles them in two thirds of the time with -O1.
function(quire_test_program target)
  cmake_parse_arguments(ARG "COMPUTES" "" "" ${ARGN})
  target_compile_definitions(${target} PRIVATE QUIRE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT ARG_COMPUTES)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# quire_test_in_parts(<target> <prefix> <parts> [<filter>])
#
# Runs a program of thousands of small tests in so many parts, since starting it takes longer than most of
# them; each part reports its tests for scripts/test_table.py. ctest begins with these parts. One test: run
# the program with --gtest_filter.
function(quire_test_in_parts target prefix parts)
  set(filter *)
  if(ARGC GREATER 3)
    set(filter ${ARGV3})
  endif()
  math(EXPR last "${parts} - 1")
  foreach(part RANGE ${last})
    add_test(NAME ${prefix}.part_${part}
             COMMAND ${target} --gtest_brief=1 --gtest_filter=${filter}
                     --gtest_output=json:${PROJECT_BINARY_DIR}/reports/${target}.part_${part}.json)
    set_tests_properties(${prefix}.part_${part} PROPERTIES TIMEOUT 900 COST 10
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${part}")
  endforeach()
endfunction()

# quire_library(<folder> DEPS <other folders...> EXTERNAL <imported targets...> WITHOUT <path beginnings...>
#               [COMPUTES] [TESTS_COMPUTE] [TEST_PARTS <count>])
#
# One static library a folder: every *.cpp beside the CMakeLists.txt (and in its sub-folders) except
# tests and benchmarks. `foo_test.cpp` files become the test program <folder>_test and
# `foo_benchmark.cpp` files the program <folder>_benchmark. DEPS are the only Quire folders whose
# headers this one may include; scripts/check_edges.py enforces the same list in CI. WITHOUT leaves
# out the sources whose paths begin so. COMPUTES: a build with sanitizers optimizes it and its tests, where
# it compiles all else in a third of the time without. TESTS_COMPUTE: see quire_test_program(); TEST_PARTS:
# see quire_test_in_parts().
function(quire_library name)
  cmake_parse_arguments(ARG "COMPUTES;TESTS_COMPUTE" "TEST_PARTS" "DEPS;EXTERNAL;WITHOUT" ${ARGN})
  file(GLOB_RECURSE all_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(path IN LISTS ARG_WITHOUT)
    list(FILTER all_sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${path}")
  endforeach()
  set(sources ${all_sources})
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark)\\.cpp$")
  set(tests ${all_sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  set(benchmarks ${all_sources})
  list(FILTER benchmarks INCLUDE REGEX "_benchmark\\.cpp$")

  set(optimized)
  if(ARG_COMPUTES AND QUIRE_SANITIZE)
    set(optimized -O1)
  endif()

  list(TRANSFORM ARG_DEPS PREPEND quire_)
  if(sources)
    add_library(quire_${name} STATIC ${sources})
    quire_compile_by_folder(quire_${name} ${sources})
    target_compile_options(quire_${name} PRIVATE ${optimized})
    set(scope PUBLIC)
  else()
    add_library(quire_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(quire_${name} ${scope} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(quire_${name} ${scope} ${ARG_DEPS} ${ARG_EXTERNAL})

  if(QUIRE_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    quire_compile_by_folder(${name}_test ${tests})
    target_compile_options(${name}_test PRIVATE ${optimized})
    target_link_libraries(${name}_test PRIVATE quire_${name} GTest::gmock GTest::gtest_main)
    if(ARG_TESTS_COMPUTE)
      quire_test_program(${name}_test COMPUTES)
    else()
      quire_test_program(${name}_test)
    endif()
    if(ARG_TEST_PARTS)
      quire_test_in_parts(${name}_test ${name} ${ARG_TEST_PARTS})
    else()
      gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
                           PROPERTIES TIMEOUT 600)
    endif()
  endif()
  if(QUIRE_BUILD_BENCHMARKS AND benchmarks)
    add_executable(${name}_benchmark ${benchmarks})
    quire_compile_by_folder(${name}_benchmark ${benchmarks})
    target_link_libraries(${name}_benchmark PRIVATE quire_${name} benchmark::benchmark_main)
  endif()
endfunction()

# Compiles the sources of one instruction-set level with its flags, and nothing else with them.
function(quire_instruction_set folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark)\\.cpp$")
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${ARGN}")
endfunction()
