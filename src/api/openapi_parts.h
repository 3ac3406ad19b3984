/* SPDX-License-Identifier: MIT */
/* openapi_parts.h: parts of the description: what operations take, and what they refuse. */
#ifndef DIBS_OPENAPI_PARTS_H
#define DIBS_OPENAPI_PARTS_H

#include "decode.h"

/* The schema of an object of the shape, and that of either one or a list of what is called so. */
void openapi_object(struct jw *w, const struct api_shape *shape);
void openapi_one_or_many(struct jw *w, const char *name);
bool openapi_has_fields(const struct api_shape *shape);
/* Whether a body must be sent. */
bool openapi_is_required(const struct api_shape *shape);
/* The fields as query parameters, elements of a list that has begun. */
void openapi_query(struct jw *w, const struct api_shape *shape);
/* The schemas that fields refer to: Id, Priority, Time. Members of an object that has begun. */
void openapi_field_schemas(struct jw *w);

/* A response for every HTTP code that an operation may refuse with; `own` as in struct reply. */
void openapi_refusals(struct jw *w, bool writes, const dibs_status *own);
void openapi_refer_to_refusal(struct jw *w, int http);
void openapi_shared_refusals(struct jw *w);
/* A text in which every code of status.def has its sentence. */
void openapi_codes(struct jw *w, const char *key);

#endif
