/* SPDX-License-Identifier: MIT */
/*
 * table.c: rows in aligned columns.
 *
 * All cells are collected first, so that a column is as wide as its widest cell; two blanks stand
 * between columns and none at the end of a line. On a terminal that is too narrow the flexible
 * column is cut with an ellipsis; into a pipe nothing is ever cut, as a program may read it.
 */
#include "output.h"

#include "base/arena.h"
#include "must.h"

#define FLEXIBLE_COLUMNS_MIN 12
#define GAP 2

void table_init(struct table *t, dibs_arena *a, const struct column *columns, size_t count)
{
    *t = (struct table){.arena = a, .columns = columns, .column_count = count};
}

void table_cell(struct table *t, enum colour colour, const char *text)
{
    struct cell *cell = arena_push(t->arena, (void **)&t->cells, &t->cell_count, sizeof *t->cells);

    if (cell == NULL)
        must_fail();
    *cell = (struct cell){.text = text != NULL ? out_safe(t->arena, text) : "-",
                          .colour = text != NULL ? colour : DIM};
}

void table_int(struct table *t, int64_t value)
{
    table_cell(t, PLAIN, must_printf(t->arena, "%" PRId64, value));
}

const char *out_cut(dibs_arena *a, const char *text, size_t columns)
{
    size_t bytes = strlen(text);
    char *copy = must_copy(a, text, bytes);

    if (out_width(text) <= columns)
        return text;
    while (bytes > 0 && out_width(copy) > columns - 1) {
        do
            bytes--;
        while (bytes > 0 && (copy[bytes] & 0xC0) == 0x80);
        copy[bytes] = '\0';
    }
    return must_printf(a, "%s\u2026", copy);
}

/* shrink: makes the flexible column narrow enough for the terminal and cuts its cells. */
static void shrink(const struct table *t, size_t *widths, size_t terminal)
{
    size_t total = GAP * (t->column_count - 1), flexible = t->column_count;

    for (size_t i = 0; i < t->column_count; i++) {
        total += widths[i];
        if (t->columns[i].flexible)
            flexible = i;
    }
    if (flexible == t->column_count || total <= terminal)
        return;
    size_t over = total - terminal;
    size_t room = widths[flexible] > over ? widths[flexible] - over : 0;
    if (room < FLEXIBLE_COLUMNS_MIN)
        room = FLEXIBLE_COLUMNS_MIN;
    if (room >= widths[flexible])
        return;
    widths[flexible] = room;
    for (size_t i = flexible; i < t->cell_count; i += t->column_count)
        t->cells[i].text = out_cut(t->arena, t->cells[i].text, room);
}

static void print_cell(const struct output *out, const struct column *column,
                       const struct cell *cell, size_t width, bool last)
{
    size_t used = out_width(cell->text);
    int pad = (int)(width > used ? width - used : 0);

    if (column->right)
        printf("%*s", pad, "");
    out_colour(out, cell->colour, cell->text);
    if (!last)
        printf("%*s", (column->right ? 0 : pad) + GAP, "");
    else
        putchar('\n');
}

void table_print(const struct table *t, const struct output *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};

    for (size_t i = 0; i < t->column_count; i++)
        widths[i] = out_width(t->columns[i].title);
    for (size_t i = 0; i < t->cell_count; i++) {
        size_t width = out_width(t->cells[i].text);
        if (width > widths[i % t->column_count])
            widths[i % t->column_count] = width;
    }
    if (out->columns > 0)
        shrink(t, widths, out->columns);
    for (size_t i = 0; i < t->column_count; i++)
        print_cell(out, &t->columns[i], &(struct cell){t->columns[i].title, BOLD}, widths[i],
                   i + 1 == t->column_count);
    for (size_t i = 0; i < t->cell_count; i++) {
        size_t column = i % t->column_count;
        print_cell(out, &t->columns[column], &t->cells[i], widths[column],
                   column + 1 == t->column_count);
    }
}
