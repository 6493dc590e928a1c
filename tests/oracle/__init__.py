"""The referee: an independent reading of the sample in plain Python, written from the semantics alone.

Nothing here imports the project, Spark or Delta, so that agreement with it means something:

    capture = read(arrivals())                      # oracle.capture: messages -> transactions
    Source(capture).state_as_of(csn)                # oracle.state: what the source's tables held then
    Source(capture).documents_as_of(csn)            # oracle.documents: the same as nested documents
    valid_through(capture)                          # oracle.completeness: how far a pipeline may publish
    typed_state(state), differences(left, right)    # oracle.values, oracle.comparison: comparing with Delta
    deliver(messages, folder, seed=1, arrivals=9)   # oracle.delivery.faults: the same load, delivered badly
"""
