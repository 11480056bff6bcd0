CREATE TABLE audit (
    id BIGSERIAL NOT NULL,
    at FLOAT NOT NULL,
    ticket TEXT NOT NULL,
    generation BIGINT NOT NULL,
    actor TEXT NOT NULL,
    act TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX audit_by_ticket ON audit (ticket, generation);
CREATE TABLE callback_clients (
    client TEXT NOT NULL,
    url TEXT NOT NULL,
    PRIMARY KEY (client)
);
CREATE TABLE callbacks (
    id BIGSERIAL NOT NULL,
    ticket TEXT NOT NULL,
    generation BIGINT NOT NULL,
    state TEXT NOT NULL,
    client TEXT NOT NULL,
    event_id TEXT NOT NULL,
    document TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    due_at FLOAT NOT NULL,
    tries INTEGER NOT NULL,
    sent_at FLOAT,
    dead_at FLOAT,
    last_error TEXT,
    PRIMARY KEY (id),
    UNIQUE (ticket, generation, state)
);
CREATE INDEX callbacks_due ON callbacks (client, sent_at, dead_at, due_at);
CREATE TABLE items (
    ticket TEXT NOT NULL,
    generation BIGINT NOT NULL,
    came_as TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT,
    malformed INTEGER NOT NULL,
    attempt BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    crashes BIGINT NOT NULL,
    interruptions BIGINT NOT NULL,
    body BYTEA NOT NULL,
    digest TEXT NOT NULL,
    properties BYTEA NOT NULL,
    content_type TEXT,
    content_encoding TEXT,
    headers TEXT NOT NULL,
    admission TEXT,
    history_total BIGINT NOT NULL,
    spool_path TEXT,
    submitted_at FLOAT,
    arrived_at FLOAT NOT NULL,
    decided_at FLOAT,
    decided_by TEXT,
    decision_reason TEXT,
    PRIMARY KEY (ticket, generation)
);
CREATE INDEX items_by_state ON items (state, arrived_at);
CREATE TABLE node_states (
    node TEXT NOT NULL,
    event TEXT NOT NULL,
    subject TEXT NOT NULL,
    state TEXT NOT NULL,
    document TEXT NOT NULL,
    at FLOAT NOT NULL,
    event_id TEXT NOT NULL,
    PRIMARY KEY (node, event, subject)
);
CREATE INDEX node_states_by_time ON node_states (at);
CREATE TABLE notices (
    id BIGSERIAL NOT NULL,
    event TEXT NOT NULL,
    subject TEXT NOT NULL,
    "window" FLOAT NOT NULL,
    channel TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    fields TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    due_at FLOAT NOT NULL,
    tries INTEGER NOT NULL,
    sent_at FLOAT,
    last_error TEXT,
    PRIMARY KEY (id),
    UNIQUE (event, subject, "window", channel)
);
CREATE INDEX notices_due ON notices (sent_at, due_at);
CREATE TABLE passes (
    id TEXT NOT NULL,
    refusal TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    client TEXT NOT NULL,
    kind TEXT NOT NULL,
    by TEXT NOT NULL,
    reason TEXT NOT NULL,
    given_at FLOAT NOT NULL,
    expires_at FLOAT NOT NULL,
    used_at FLOAT,
    ticket TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX passes_by_expiry ON passes (expires_at);
CREATE TABLE refusal_counts (
    rule TEXT NOT NULL,
    minute BIGINT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (rule, minute)
);
CREATE INDEX refusal_counts_by_minute ON refusal_counts (minute);
CREATE TABLE refusal_facts (
    refusal TEXT NOT NULL,
    facts TEXT NOT NULL,
    PRIMARY KEY (refusal)
);
CREATE TABLE refusals (
    id TEXT NOT NULL,
    at FLOAT NOT NULL,
    ticket TEXT NOT NULL,
    kind TEXT NOT NULL,
    node TEXT NOT NULL,
    client TEXT,
    bytes BIGINT,
    digest TEXT,
    violations TEXT NOT NULL,
    sample TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX refusals_by_time ON refusals (at);
CREATE TABLE runs (
    ticket TEXT NOT NULL,
    generation BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    interruptions BIGINT NOT NULL,
    trust INTEGER NOT NULL,
    kind TEXT NOT NULL,
    outcome TEXT NOT NULL,
    verdict TEXT,
    node TEXT NOT NULL,
    worker BIGINT,
    lane TEXT,
    started_at FLOAT,
    seconds FLOAT,
    delay FLOAT,
    evidence TEXT NOT NULL,
    event_id TEXT,
    reported_at FLOAT NOT NULL,
    PRIMARY KEY (ticket, generation, attempt, interruptions)
);
CREATE TABLE spooled (
    path TEXT NOT NULL,
    at FLOAT NOT NULL,
    source TEXT NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (path)
);
CREATE TABLE station_schema (
    version SERIAL NOT NULL,
    PRIMARY KEY (version)
);
CREATE TABLE submissions (
    ticket TEXT NOT NULL,
    digest TEXT NOT NULL,
    holder TEXT NOT NULL,
    held_until FLOAT NOT NULL,
    status INTEGER,
    answer BYTEA,
    expires_at FLOAT NOT NULL,
    PRIMARY KEY (ticket)
);
CREATE INDEX submissions_by_expiry ON submissions (expires_at);
CREATE TABLE tickets (
    ticket TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    rank INTEGER NOT NULL,
    generation BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    interruptions BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    charged BIGINT NOT NULL,
    client TEXT,
    detail TEXT,
    updated_at FLOAT NOT NULL,
    PRIMARY KEY (ticket)
);
CREATE INDEX tickets_by_state ON tickets (state);
CREATE TABLE alerts (
    id BIGSERIAL NOT NULL,
    ticket TEXT NOT NULL,
    generation BIGINT NOT NULL,
    event TEXT NOT NULL,
    channel TEXT NOT NULL,
    text TEXT,
    created_at FLOAT NOT NULL,
    due_at FLOAT NOT NULL,
    tries INTEGER NOT NULL,
    sent_at FLOAT,
    retired_at FLOAT,
    last_error TEXT,
    PRIMARY KEY (id),
    UNIQUE (ticket, generation, event, channel),
    FOREIGN KEY(ticket, generation) REFERENCES items (ticket, generation)
);
CREATE INDEX alerts_due ON alerts (sent_at, due_at)
