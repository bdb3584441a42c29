# Operators: definitions in src/ops -> ${gen}/weft/ops.h, the table, the builders, pages and test lists, by a generator
# that is built for the machine that builds. Sets WEFT_GEN_SOURCES; the target weft_generated makes the files.
if(NOT gen)
  set(gen ${CMAKE_BINARY_DIR}/gen)
endif()
file(MAKE_DIRECTORY ${gen}/weft ${gen}/docs/ops)
set(WEFT_OPS_DIR ${CMAKE_SOURCE_DIR}/src/ops CACHE PATH "folder of operator definitions")

file(GLOB gen_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/gen/*.c)
add_executable(weft_gen ${gen_sources} ${CMAKE_SOURCE_DIR}/src/graph/axis_text.c)
target_include_directories(weft_gen PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(weft_gen PRIVATE weft_flags)
target_compile_options(weft_gen PRIVATE -Wconversion -Wsign-conversion)

file(GLOB prelude_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernel/*.h ${CMAKE_SOURCE_DIR}/src/kernel/ew/half.h
  ${CMAKE_SOURCE_DIR}/src/codegen/frame.h)
file(GLOB op_files CONFIGURE_DEPENDS ${WEFT_OPS_DIR}/*.c)
set(WEFT_GEN_SOURCES ${gen}/ops_table.c ${gen}/ops_rows.c ${gen}/ops_build.c ${gen}/code_prelude.c)
add_custom_command(
  OUTPUT ${gen}/ops.stamp
  BYPRODUCTS ${WEFT_GEN_SOURCES} ${gen}/weft/ops.h ${gen}/ops_enum.h ${gen}/ew_rows.inc ${gen}/ew_ref.inc
    ${gen}/samples.inc ${gen}/docs/ops.md
  COMMAND weft_gen ${gen} ${WEFT_OPS_DIR} ${CMAKE_SOURCE_DIR}/src
  COMMAND ${CMAKE_COMMAND} -E touch ${gen}/ops.stamp
  DEPENDS weft_gen ${prelude_files} ${op_files} ${WEFT_OPS_DIR}/ops.def ${WEFT_OPS_DIR}/elementwise.def
  COMMENT "Operators")
add_custom_target(weft_generated DEPENDS ${gen}/ops.stamp)
